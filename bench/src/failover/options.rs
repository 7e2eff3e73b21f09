//! The command line of this part.

use std::path::PathBuf;

use super::primary::Scenario;

pub const USAGE: &str = "\
usage: pgsteer-bench failover [--scripts kill,freeze,switchover,servers] [--contenders NAME,…] [--out FILE]
       pgsteer-bench failover --program FILE [--outage] [--out FILE]
  --scripts     which scripts; all unless told otherwise
  --contenders  pgsteer, deadpool, deadpool-careful, bb8, bb8-random, bare, bare-random, yb; all unless told
                otherwise
  --program     records `pgsteer bench`, run from this file, through a failover instead
  --outage      records it through a time in which all servers are stopped
  --out         also writes what was measured into this file, between its lines `<!-- measured: begin -->` and
                `<!-- measured: end -->`";

#[derive(Debug)]
pub struct Options {
    pub scenarios: Vec<Scenario>,
    pub servers: bool,
    pub contenders: Option<Vec<String>>,
    pub program: Option<PathBuf>,
    pub outage: bool,
    pub out: Option<PathBuf>,
}

impl Options {
    pub fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Options {
            scenarios: Scenario::ALL.to_vec(),
            servers: true,
            contenders: None,
            program: None,
            outage: false,
            out: None,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .ok_or_else(|| format!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--scripts" => options.choose_scripts(&value()?)?,
                "--contenders" => {
                    options.contenders = Some(value()?.split(',').map(str::to_owned).collect());
                }
                "--program" => options.program = Some(value()?.into()),
                "--outage" => options.outage = true,
                "--out" => options.out = Some(value()?.into()),
                _ => return Err(format!("there is no option {argument}")),
            }
        }
        Ok(options)
    }

    fn choose_scripts(&mut self, list: &str) -> Result<(), String> {
        (self.scenarios, self.servers) = (Vec::new(), false);
        for word in list.split(',') {
            match Scenario::ALL.into_iter().find(|scenario| scenario.word() == word) {
                Some(scenario) => self.scenarios.push(scenario),
                None if word == "servers" => self.servers = true,
                None => return Err(format!("there is no script {word}")),
            }
        }
        Ok(())
    }

    pub fn wants(&self, contender: &str) -> bool {
        self.contenders
            .as_ref()
            .is_none_or(|words| words.iter().any(|word| word == contender))
    }
}
