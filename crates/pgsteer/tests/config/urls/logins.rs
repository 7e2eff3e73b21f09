//! Credentials, database and texts in URLs.

use crate::table::Good;

pub(super) const LOGINS: &[Good] = &[
    ("postgresql://app@h", &[("user", "app"), ("hosts", "h:5432")]),
    ("postgresql://app@", &[("user", "app")]),
    ("postgresql://app@/db", &[("user", "app"), ("database", "db")]),
    ("postgresql://@h", &[("hosts", "h:5432")]),
    ("postgresql://app:@h", &[("user", "app"), ("hosts", "h:5432")]),
    (
        "postgresql://app:secret@h/db",
        &[
            ("user", "app"),
            ("password", "redacted"),
            ("hosts", "h:5432"),
            ("database", "db"),
        ],
    ),
    (
        "postgresql://:secret@h",
        &[("password", "redacted"), ("hosts", "h:5432")],
    ),
    (
        "postgresql://app:a:b:c@h",
        &[("user", "app"), ("password", "redacted"), ("hosts", "h:5432")],
    ),
    (
        "postgresql://app:%40%2F%3F%25@h:1",
        &[("user", "app"), ("password", "redacted"), ("hosts", "h:1")],
    ),
    (
        "postgresql://app:%FF%FE@h",
        &[("user", "app"), ("password", "redacted"), ("hosts", "h:5432")],
    ),
    (
        "postgresql://app:p+w@h",
        &[("user", "app"), ("password", "redacted"), ("hosts", "h:5432")],
    ),
    ("postgresql://a%40b@h", &[("user", "a@b"), ("hosts", "h:5432")]),
    ("postgresql://a%3Ab@h", &[("user", "a:b"), ("hosts", "h:5432")]),
    ("postgresql://a+b@h", &[("user", "a+b"), ("hosts", "h:5432")]),
    (
        "postgresql://donn%C3%A9es@h",
        &[("user", "données"), ("hosts", "h:5432")],
    ),
    (
        "yugabytedb://app@h/db",
        &[("user", "app"), ("hosts", "h:5433"), ("database", "db")],
    ),
    ("yugabytedb://h/db", &[("hosts", "h:5433"), ("database", "db")]),
    (
        "postgresql://h/my%20db",
        &[("hosts", "h:5432"), ("database", "my db")],
    ),
    (
        "postgresql://h/donn%C3%A9es",
        &[("hosts", "h:5432"), ("database", "données")],
    ),
    (
        "postgresql://h/a%2Fb",
        &[("hosts", "h:5432"), ("database", "a/b")],
    ),
    ("postgresql://h/a/b", &[("hosts", "h:5432"), ("database", "a/b")]),
    (
        "postgresql://h/a%3Fb",
        &[("hosts", "h:5432"), ("database", "a?b")],
    ),
    (
        "postgresql://h/db@x",
        &[("hosts", "h:5432"), ("database", "db@x")],
    ),
    ("postgresql://h?user=app", &[("hosts", "h:5432"), ("user", "app")]),
    (
        "postgresql://h?username=app",
        &[("hosts", "h:5432"), ("user", "app")],
    ),
    (
        "postgresql://app@h?user=other",
        &[("hosts", "h:5432"), ("user", "other")],
    ),
    (
        "postgresql://h/a?dbname=b",
        &[("hosts", "h:5432"), ("database", "b")],
    ),
    (
        "postgresql://h/a?database=b",
        &[("hosts", "h:5432"), ("database", "b")],
    ),
    (
        "postgresql://h?password=secret",
        &[("hosts", "h:5432"), ("password", "redacted")],
    ),
    ("postgresql://h?user=", &[("hosts", "h:5432")]),
    ("yugabytedb://h?user=&dbname=", &[("hosts", "h:5433")]),
    ("postgresql://h?user=a@b", &[("hosts", "h:5432"), ("user", "a@b")]),
    (
        "postgresql://h?application_name=a@b",
        &[("hosts", "h:5432"), ("application_name", "a@b")],
    ),
    (
        "postgresql://h/?application_name=svc%20one",
        &[("hosts", "h:5432"), ("application_name", "svc one")],
    ),
    (
        "postgresql://h/?application_name=",
        &[("hosts", "h:5432"), ("application_name", "")],
    ),
    (
        "postgresql://h/?application_name=a+b",
        &[("hosts", "h:5432"), ("application_name", "a+b")],
    ),
    (
        "postgresql://h?options=-c%20geqo%3Doff",
        &[("hosts", "h:5432"), ("options", "-c geqo=off")],
    ),
    (
        "postgresql://h?options=-c geqo=off",
        &[("hosts", "h:5432"), ("options", "-c geqo=off")],
    ),
    (
        "postgresql://h?target_session_attrs=read-write",
        &[("hosts", "h:5432"), ("target_session_attrs", "read-write")],
    ),
    ("postgresql://h?target_session_attrs=any", &[("hosts", "h:5432")]),
];
