//! Exit codes, and that no password is ever repeated.

use crate::rig::run;

const SECRET: &str = "s3cr3t";

#[test]
fn the_exit_code_says_whether_the_usage_or_the_work_was_wrong() {
    let nobody = "postgresql://app@127.0.0.1:1/app";
    let cases: [(&[&str], i32); 15] = [
        (&["--help"], 0),
        (&["bench", "--help"], 0),
        (&["--version"], 0),
        (&["url", "postgresql://app@db1/app"], 0),
        (&[], 2),
        (&["no-such-command"], 2),
        (&["url"], 2),
        (&["url", "mysql://db1/app"], 2),
        (&["url", "postgresql://db1/app?pool_size=0"], 2),
        (&["topology", "postgresql://db1:0/app"], 2),
        (&["bench", "postgresql://db1/app", "--seconds", "0"], 2),
        (&["bench", "postgresql://db1/app", "--pool-size", "many"], 2),
        (&["demo", "--seconds", "500"], 2),
        (&["topology", nobody], 1),
        (&["bench", nobody, "--seconds", "1"], 1),
    ];

    for (arguments, code) in cases {
        let run = run(arguments);

        assert_eq!(run.code, Some(code), "{arguments:?}: {run:?}");
        let complained = !run.stderr.is_empty();
        assert_eq!(complained, code != 0, "{arguments:?}: {run:?}");
    }
}

#[test]
fn no_password_is_repeated_whatever_is_wrong() {
    let good = "postgresql://app:s3cr3t@db1/app";
    let cases: [&[&str]; 14] = [
        &[good],
        &["topology", good, good],
        &["bench", good, "--pool-size", good],
        &["bench", good, "--tasks=postgresql://app:s3cr3t@db1/app"],
        &["bench", "--password=s3cr3t@x", good],
        &["demo", good],
        &["url", "postgresql://app:s3cr3t@db1:port/app"],
        &["url", "postgresql://app:s3cr3t/x@db1/app"],
        &["url", "postgresql://app:s3cr3t?x@db1/app"],
        &["url", "postgresql://app:s3cr3t@x@db1/app?bogus=1"],
        &["url", "postgresql://app:%zzs3cr3t@db1/app"],
        &["url", "postgresql://db1/app?password=s3cr3t&pool_size=0"],
        &["url", "host=db1 password=s3cr3t pool_size=0"],
        &[
            "topology",
            "jdbc:postgresql://db1/app?user=app&password=s3cr3t&bogus=1",
        ],
    ];

    for arguments in cases {
        let run = run(arguments);

        assert_eq!(run.code, Some(2), "{arguments:?}: {run:?}");
        assert!(!run.stderr.is_empty(), "{arguments:?} says nothing");
        assert!(
            !(run.stdout + &run.stderr).contains(SECRET),
            "{arguments:?} repeats the password"
        );
    }
}

#[test]
fn help_has_examples_for_every_command() {
    for command in ["demo", "topology", "bench", "echo", "load"] {
        let run = run(&[command, "--help"]);

        assert!(run.stdout.contains(&format!("  pgsteer {command}")), "{run:?}");
    }
}
