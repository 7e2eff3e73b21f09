//! Password files. What a configuration found is seen by its description, and which of them by a unit test beside the code.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;

use pgsteer::config::{Config, ConfigError};

/// A file in a folder of its own that goes away.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &[u8]) -> Self {
        let folder = std::env::temp_dir().join(format!("pgsteer-passfile-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let scratch = Scratch(folder);
        fs::write(scratch.file(), text).expect("a file");
        scratch.mode(0o600);
        scratch
    }

    fn file(&self) -> PathBuf {
        self.0.join("pgpass")
    }

    fn mode(&self, mode: u32) {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(self.file(), fs::Permissions::from_mode(mode)).expect("its mode");
        }
        #[cfg(not(unix))]
        let _ = mode;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn has_password(config: &Config) -> bool {
    let description = config.describe().expect("valid");
    description.get("password").expect("an option").to_string() == "redacted"
}

fn reason(error: ConfigError) -> String {
    match error {
        ConfigError::PasswordFile { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_line_is_found_by_what_the_configuration_has_in_the_end() {
    let scratch = Scratch::new("found", b"db1:6000:shop:app:secret\n");
    let config = Config::new().with_pgpass_file(scratch.file()).expect("readable");
    assert!(!has_password(&config.clone().user("app")));
    assert!(has_password(
        &config.host(("db1", 6000)).user("app").database("shop")
    ));
}

#[test]
fn a_password_that_is_given_wins_and_the_file_is_not_opened() {
    let config = Config::new().password("given").with_pgpass_file("/no/such/file");
    assert!(config.is_ok());
}

#[test]
fn a_file_that_is_not_there_is_an_error() {
    let error = Config::new()
        .with_pgpass_file("/no/such/file")
        .expect_err("it is not there");
    assert!(
        error
            .to_string()
            .starts_with("the password file /no/such/file cannot be read: "),
        "{error}"
    );
    let folder = Config::new().with_pgpass_file("/").expect_err("a folder");
    assert!(folder.to_string().starts_with("the password file / "), "{folder}");
}

#[cfg(unix)]
#[test]
fn a_file_open_to_others_is_refused() {
    let scratch = Scratch::new("open", b"*:*:*:*:s3cret\n");
    for mode in [0o640, 0o604, 0o660, 0o610, 0o644, 0o602] {
        scratch.mode(mode);
        let error = Config::new()
            .with_pgpass_file(scratch.file())
            .expect_err("open to others");
        assert!(!format!("{error} {error:?}").contains("s3cret"));
        assert!(reason(error).contains("by others"), "{mode:o}");
    }
    for mode in [0o600, 0o400, 0o700] {
        scratch.mode(mode);
        assert!(Config::new().with_pgpass_file(scratch.file()).is_ok(), "{mode:o}");
    }
}

#[test]
fn hosts_that_do_not_share_a_password_are_refused() {
    let scratch = Scratch::new("share", b"a:*:*:*:one\nb:*:*:*:two\nc:*:*:*:one\n");
    let config = |hosts: &[&str]| {
        Config::new()
            .user("app")
            .hosts(hosts.iter().copied())
            .with_pgpass_file(scratch.file())
            .expect("readable")
    };
    assert!(has_password(&config(&["a", "c"])));
    assert!(!has_password(&config(&["d", "e"])));
    for hosts in [["a", "b"], ["a", "d"], ["d", "a"]] {
        let error = config(&hosts).check().expect_err("two passwords");
        assert!(
            reason(error).starts_with("does not have one password for all hosts"),
            "{hosts:?}"
        );
    }
}

#[test]
fn the_file_of_the_environment_is_read_and_its_password_variable_wins() {
    let scratch = Scratch::new("variable", b"*:*:*:*:s3cret\n");
    let environment = |password: bool| {
        let file = scratch.file();
        move |name: &str| match name {
            "PGPASSFILE" => Some(file.clone().into_os_string()),
            "PGPASSWORD" if password => Some("given".into()),
            _ => None,
        }
    };
    let config = Config::new().user("app");
    let found = config
        .clone()
        .with_environment_from(environment(false))
        .expect("readable");
    assert!(has_password(&found));
    let printed = format!(
        "{found:?} {} {}",
        found.describe().expect("valid"),
        found.to_url().expect("valid")
    );
    assert!(!printed.contains("s3cret"), "{printed}");

    scratch.mode(0o644);
    let unread = config.clone().with_environment_from(environment(true));
    assert!(has_password(&unread.expect("the file is not opened")));
    assert!(cfg!(windows) || config.with_environment_from(environment(false)).is_err());
}
