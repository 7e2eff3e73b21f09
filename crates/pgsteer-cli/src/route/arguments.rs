//! The command line of `pgsteer route`: one flag for each option that the router has, and the file that holds the others.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use pgsteer_router::config::{RULES, Rule};

const HELP: &str = "\
A frame is four bytes, big-endian, that say how long the payload is, then the payload. A client may send any number of
requests on a connection. Each goes to the backend that carries least for its weight; answers come in order. A request
that cannot be answered is answered with a frame that says so: ERR backend unavailable, ERR backend write or ERR backend
read.

SIGTERM or Ctrl-C drains: what has been accepted is answered, then the router ends. A second one ends it at once. SIGHUP
reads the file and the certificates again; what cannot be used is refused with the reason, and everything stays as it was.

With --config FILE options are read from a TOML file, under the same names without the dashes; what the command line says
goes over them. Durations take a unit (500ms, 5s, 2min; a bare number is seconds), sizes too (64KiB, 16MiB).

Standard output says where the router listens. Exit codes: 0 good, 1 it could not start or dropped requests when the grace
was over, 2 bad usage.

Examples:
  pgsteer route --listen 0.0.0.0:8080 --backend 10.0.0.1:9090 --backend 10.0.0.2:9090:2
  pgsteer route --config router.toml --pool-size 32";

/// Arguments of `route`: what was given, and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteArguments {
    /// The file with further options.
    pub config: Option<PathBuf>,
    /// Options by their names, in the order of the table; a list's values in their order.
    pub given: Vec<(&'static str, String)>,
}

const CONFIG: &str = "config";

fn flag(rule: &'static Rule) -> Arg {
    let help = match rule.default {
        "" => rule.help.to_owned(),
        default => format!("{} [default: {default}]", rule.help),
    };
    let arg = Arg::new(rule.name)
        .long(rule.name)
        .value_name(rule.value)
        .help(help);
    match (rule.list, rule.switch) {
        (true, _) => arg.action(ArgAction::Append),
        (false, true) => arg.num_args(0..=1).default_missing_value("on"),
        (false, false) => arg,
    }
}

impl Args for RouteArguments {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Read options from this TOML file; flags go over it");
        RULES
            .iter()
            .fold(command.after_help(HELP).arg(config), |command, rule| {
                command.arg(flag(rule))
            })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RouteArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut arguments = RouteArguments::default();
        arguments.update_from_arg_matches(matches)?;
        Ok(arguments)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.config = matches.get_one::<PathBuf>(CONFIG).cloned();
        self.given.clear();
        for rule in RULES {
            if matches.value_source(rule.name) != Some(ValueSource::CommandLine) {
                continue;
            }
            let values = matches.get_many::<String>(rule.name).into_iter().flatten();
            self.given.extend(values.map(|value| (rule.name, value.clone())));
        }
        Ok(())
    }
}
