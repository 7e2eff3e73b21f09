//! Programs beside PostgreSQL's own that some tests need.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::failure::{Failure, Outcome};

/// A program and where it comes from.
#[derive(Debug)]
pub(crate) struct Tool {
    name: &'static str,
    package: &'static str,
}

impl Tool {
    pub(crate) const NFT: Self = Self {
        name: "nft",
        package: "nftables",
    };
    pub(crate) const PGBOUNCER: Self = Self {
        name: "pgbouncer",
        package: "pgbouncer",
    };

    /// Where the program is, or a failure that says what to install.
    pub(crate) fn find(&self) -> Outcome<PathBuf> {
        self.find_in(env::var_os("PATH"), &["/usr/sbin", "/sbin"])
    }

    /// `further` folders are those that Debian keeps from the `PATH` of an ordinary user.
    fn find_in(&self, path: Option<OsString>, further: &[&str]) -> Outcome<PathBuf> {
        let folders = path.iter().flat_map(env::split_paths);
        let mut programs = folders
            .chain(further.iter().map(PathBuf::from))
            .map(|folder| folder.join(self.name));
        programs.find(|program| program.is_file()).ok_or_else(|| {
            Failure::new(format!(
                "the program {} is missing. On Debian and Ubuntu install the package `{package}` (apt-get install \
                 {package})",
                self.name,
                package = self.package
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let failure = Tool::NFT.find_in(Some("/nowhere".into()), &[]).unwrap_err();
        assert!(
            failure.to_string().contains("apt-get install nftables"),
            "{failure}"
        );
    }
}
