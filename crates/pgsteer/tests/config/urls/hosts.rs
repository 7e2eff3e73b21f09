//! Hosts, addresses and ports in URLs.

use crate::table::Good;

pub(super) const HOSTS: &[Good] = &[
    ("postgresql://?&", &[]),
    ("postgresql://", &[]),
    ("postgres://", &[]),
    ("yugabytedb://", &[]),
    ("postgresql:///", &[]),
    ("postgresql://?", &[]),
    ("postgresql:///?", &[]),
    ("postgresql://db1", &[("hosts", "db1:5432")]),
    ("postgresql://db1/", &[("hosts", "db1:5432")]),
    ("yugabytedb://db1", &[("hosts", "db1:5433")]),
    ("postgresql://db1:6000", &[("hosts", "db1:6000")]),
    ("postgresql://db1:65535", &[("hosts", "db1:65535")]),
    ("postgresql://db1:0006000", &[("hosts", "db1:6000")]),
    ("postgresql://db1:", &[("hosts", "db1:5432")]),
    ("postgresql://:6000", &[("hosts", "localhost:6000")]),
    (
        "postgresql://:6000/db",
        &[("hosts", "localhost:6000"), ("database", "db")],
    ),
    ("postgresql://h1,h2", &[("hosts", "h1:5432,h2:5432")]),
    (
        "postgresql://h1:1,h2/db",
        &[("hosts", "h1:1,h2:5432"), ("database", "db")],
    ),
    ("postgresql://h1,h2:2", &[("hosts", "h1:5432,h2:2")]),
    ("yugabytedb://h1:1,h2,h3:3", &[("hosts", "h1:1,h2:5433,h3:3")]),
    ("postgresql://h1,h1", &[("hosts", "h1:5432,h1:5432")]),
    ("postgresql://DB1.Example", &[("hosts", "DB1.Example:5432")]),
    ("postgresql://10.0.0.1:5000", &[("hosts", "10.0.0.1:5000")]),
    ("postgresql://[::1]", &[("hosts", "[::1]:5432")]),
    (
        "postgresql://[::1]:5433/db",
        &[("hosts", "[::1]:5433"), ("database", "db")],
    ),
    (
        "postgresql://[2001:db8::1],[2001:db8::2]:7",
        &[("hosts", "[2001:db8::1]:5432,[2001:db8::2]:7")],
    ),
    (
        "postgresql://%2Fvar%2Frun%2Fpostgresql/db",
        &[("hosts", "/var/run/postgresql:5432"), ("database", "db")],
    ),
    ("postgresql://%2Ftmp:6000", &[("hosts", "/tmp:6000")]),
    ("postgresql://d%C3%A9p%C3%B4t", &[("hosts", "dépôt:5432")]),
    ("postgresql://dépôt", &[("hosts", "dépôt:5432")]),
    ("postgresql://h%2C1", &[("hosts", "h,1:5432")]),
    ("postgresql://h:%36000", &[("hosts", "h:6000")]),
    ("postgresql://?host=a", &[("hosts", "a:5432")]),
    ("postgresql:///?host=a,b", &[("hosts", "a:5432,b:5432")]),
    (
        "postgresql:///db?host=a,b&port=1,2",
        &[("hosts", "a:1,b:2"), ("database", "db")],
    ),
    (
        "postgresql:///db?port=1,2&host=a,b",
        &[("hosts", "a:1,b:2"), ("database", "db")],
    ),
    (
        "postgresql://h1,h2/db?port=1,2",
        &[("hosts", "h1:1,h2:2"), ("database", "db")],
    ),
    (
        "postgresql://h1,h2/db?port=7",
        &[("hosts", "h1:7,h2:7"), ("database", "db")],
    ),
    (
        "postgresql://u@h1:1,h2/db?port=5",
        &[("user", "u"), ("hosts", "h1:5,h2:5"), ("database", "db")],
    ),
    ("postgresql://h1,h2?port=,2", &[("hosts", "h1:5432,h2:2")]),
    ("postgresql://h1:1,h2:2/?host=a,b", &[("hosts", "a:1,b:2")]),
    ("postgresql://h1:1/?host=a,b", &[("hosts", "a:1,b:1")]),
    (
        "postgresql://x:9/db?host=a,b&port=1,2",
        &[("hosts", "a:1,b:2"), ("database", "db")],
    ),
    ("postgresql://h1,h2?host=a", &[("hosts", "a:5432")]),
    ("postgresql://?port=6000", &[("hosts", "localhost:6000")]),
    ("postgresql://?host=%2Ftmp", &[("hosts", "/tmp:5432")]),
    ("postgresql://?host=/tmp", &[("hosts", "/tmp:5432")]),
    ("postgresql://?host=::1", &[("hosts", "[::1]:5432")]),
    ("postgresql://?host=", &[]),
    ("postgresql://?hostaddr=", &[]),
    ("postgresql://?port=", &[]),
    ("postgresql://h1?host=", &[]),
    (
        "postgresql://h?hostaddr=10.0.0.1",
        &[("hosts", "h(10.0.0.1):5432")],
    ),
    ("postgresql://?hostaddr=10.0.0.1", &[("hosts", "10.0.0.1:5432")]),
    ("postgresql://?hostaddr=::1&port=7", &[("hosts", "[::1]:7")]),
    (
        "postgresql://a:1,b:2?hostaddr=10.0.0.1,2001:db8::2",
        &[("hosts", "a(10.0.0.1):1,b(2001:db8::2):2")],
    ),
    (
        "postgresql://a,b?hostaddr=,10.0.0.2",
        &[("hosts", "a:5432,b(10.0.0.2):5432")],
    ),
    (
        "postgresql://,b?hostaddr=10.0.0.1,",
        &[("hosts", "10.0.0.1:5432,b:5432")],
    ),
    (
        "postgresql://?hostaddr=127.0.0.1,127.0.0.1&port=15432,16432",
        &[("hosts", "127.0.0.1:15432,127.0.0.1:16432")],
    ),
    (
        "postgresql://x,y/?hostaddr=10.0.0.1,10.0.0.2&host=a,b&port=,2",
        &[("hosts", "a(10.0.0.1):5432,b(10.0.0.2):2")],
    ),
    ("postgresql://?hosts=a,b", &[("hosts", "a:5432,b:5432")]),
];
