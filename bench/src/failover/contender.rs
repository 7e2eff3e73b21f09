//! What is put through the scripts: a name, how it is configured, and what one task of an application does with it.

use std::future::Future;
use std::pin::Pin;

use deadpool_postgres::RecyclingMethod;
use pgsteer_testkit::{DATABASE, PASSWORD, USER};

use super::{clients, pools};

/// Each write says which server took it.
pub const WRITE: &str = "INSERT INTO writes DEFAULT VALUES RETURNING host(inet_server_addr())";

/// Connections of each pool, and tasks.
pub const TASKS: usize = 32;

/// One task's way to write.
pub trait Writer: Send {
    /// Writes a row and gives the address of the server that took it, or what kind of failure it was.
    fn write(&mut self) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send + '_>>;

    /// The application has given up waiting for a write.
    fn given_up(&mut self) {}
}

/// Makes the writers of the tasks; whatever they share lives as long as they do.
pub type Writers = Vec<Box<dyn Writer>>;

/// Something to measure.
#[derive(Clone, Copy)]
pub struct Contender {
    /// What `--contenders` calls it.
    pub word: &'static str,
    pub name: &'static str,
    /// How it is configured, for the report. `…` stands for what all have: hosts, user, password, database,
    /// `connect_timeout=2` and a name.
    pub configured: &'static str,
    pub build: fn(&Hosts) -> Writers,
}

/// The servers that all are told of.
pub struct Hosts {
    /// `host:port` with commas between.
    pub addresses: String,
    pub application: String,
}

impl Hosts {
    /// A connection string with what all have and these options.
    pub fn url(&self, options: &str) -> String {
        format!(
            "postgresql://{USER}:{PASSWORD}@{}/{DATABASE}?connect_timeout=2&application_name={}&{options}",
            self.addresses, self.application
        )
    }
}

const LISTED_ORDER: &str = "target_session_attrs=read-write";
const RANDOM_ORDER: &str = "target_session_attrs=read-write&load_balance_hosts=random";

/// Those that are to follow a primary.
pub const FOLLOWERS: [Contender; 8] = [
    Contender {
        word: "pgsteer",
        name: "pgsteer",
        configured: "`…&target_session_attrs=read-write&pool_size=32`",
        build: |hosts| pools::pgsteer(hosts, LISTED_ORDER),
    },
    Contender {
        word: "deadpool",
        name: "deadpool-postgres, `Fast`",
        configured: "`Config::url` = `…&target_session_attrs=read-write`, recycling `Fast`, `max_size` 32, timeouts \
                     `wait`, `create` and `recycle` 5 s",
        build: |hosts| pools::deadpool(hosts, LISTED_ORDER, RecyclingMethod::Fast),
    },
    Contender {
        word: "deadpool-careful",
        name: "deadpool-postgres, `Verified`, random order",
        configured: "as above, recycling `Verified`, with `load_balance_hosts=random`",
        build: |hosts| pools::deadpool(hosts, RANDOM_ORDER, RecyclingMethod::Verified),
    },
    Contender {
        word: "bb8",
        name: "bb8-postgres",
        configured: "`…&target_session_attrs=read-write`, `max_size` 32, `connection_timeout` 5 s, \
                     `test_on_check_out` on (its default)",
        build: |hosts| pools::bb8(hosts, LISTED_ORDER),
    },
    Contender {
        word: "bb8-random",
        name: "bb8-postgres, random order",
        configured: "as above, with `load_balance_hosts=random`",
        build: |hosts| pools::bb8(hosts, RANDOM_ORDER),
    },
    Contender {
        word: "bare",
        name: "tokio-postgres",
        configured: "`…&target_session_attrs=read-write`; each task has a client of its own, drops it after any \
                     failure and connects anew",
        build: |hosts| clients::bare(hosts, LISTED_ORDER),
    },
    Contender {
        word: "bare-random",
        name: "tokio-postgres, random order",
        configured: "as above, with `load_balance_hosts=random`",
        build: |hosts| clients::bare(hosts, RANDOM_ORDER),
    },
    Contender {
        word: "yb",
        name: "yb-tokio-postgres",
        configured: "`…&target_session_attrs=read-write`, `load_balance` off (its default); clients as above",
        build: |hosts| clients::yugabyte(hosts, LISTED_ORDER),
    },
];

/// Those that are to use all servers of a YugabyteDB cluster.
pub const SPREADERS: [Contender; 2] = [
    Contender {
        word: "pgsteer",
        name: "pgsteer",
        configured: "`…&load_balance=any&yb_servers_refresh_interval=5&rebalance_interval=1s&pool_size=32`",
        build: |hosts| {
            pools::pgsteer(
                hosts,
                "load_balance=any&yb_servers_refresh_interval=5&rebalance_interval=1s",
            )
        },
    },
    Contender {
        word: "yb",
        name: "yb-tokio-postgres",
        configured: "`…&load_balance=any&yb_servers_refresh_interval=5`; each task has a client of its own, closes \
                     it after any failure and connects anew",
        build: |hosts| clients::yugabyte(hosts, "load_balance=any&yb_servers_refresh_interval=5"),
    },
];
