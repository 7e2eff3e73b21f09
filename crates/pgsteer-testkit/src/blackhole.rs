//! A hole in the loopback network: packets to and from an address vanish, as with a host that lost its power or a
//! firewall that drops. Made by nftables in a table of its own, which a waiting shell takes away when the test process
//! lets go of it or is killed.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::failure::{During as _, Failure, Outcome, or_fail};
use crate::tools::Tool;

/// While it lives, every packet to or from some addresses is lost on the way in: a connection attempt is never
/// answered, an established connection hangs with both ends in good faith. Dropping it heals the network; what TCP has
/// waiting then arrives by its own repetitions.
///
/// ```no_run
/// use pgsteer_testkit::{Blackhole, HaSet};
///
/// let set = HaSet::start();
/// let hole = Blackhole::over(&[&set.node(0).address()]);   // clients of node 0 wait in vain
/// set.node(0).sql("SELECT 1");                            // the testkit's own way in is no network, nor is replication
/// drop(hole);
/// ```
///
/// This takes root, or the capability CAP_NET_ADMIN, and the program `nft` (package `nftables`).
#[derive(Debug)]
pub struct Blackhole(Child);

/// Waits for its input to end and then takes the table away. `$1` is nft, `$2` the table.
const SCRIPT: &str = r#"cat >/dev/null; exec "$1" delete table inet "$2""#;

impl Blackhole {
    /// Opens one over these addresses, each `127.0.0.1:20433`. Several may be open at once.
    ///
    /// # Panics
    /// When nftables is missing or may not be used, saying what to do; when a text is no address with a port.
    #[must_use]
    #[track_caller]
    pub fn over(addresses: &[&str]) -> Self {
        or_fail(Self::try_over(addresses))
    }

    fn try_over(addresses: &[&str]) -> Outcome<Self> {
        let rules = addresses
            .iter()
            .map(|address| rules(address))
            .collect::<Outcome<String>>()?;
        let nft = Tool::NFT.find()?;
        let table = format!("pgsteer_{}_{:08x}", std::process::id(), fastrand::u32(..));
        // On the way in, since a sender would hear of a loss on the way out. The one who takes the table away is there
        // before it is made, so that no kill in between leaves it.
        let hole = Self::keep(&nft, &table)?;
        let chain = "chain incoming {\ntype filter hook input priority -150; policy accept;";
        let ruleset = format!("table inet {table} {{\n{chain}\n{rules}}}\n}}\n");
        let output = Command::new(&nft)
            .arg(&ruleset)
            .output()
            .during("cannot run nft")?;
        if output.status.success() {
            return Ok(hole);
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(Failure::new(format!(
            "nftables takes no rule: {}. A black hole needs root or the capability CAP_NET_ADMIN, and a kernel with \
             nftables",
            words.trim()
        )))
    }

    fn keep(nft: &Path, table: &str) -> Outcome<Self> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "pgsteer-testkit"])
            .arg(nft)
            .arg(table);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.process_group(0).current_dir("/");
        let child = command.spawn();
        child
            .during("cannot start the shell that closes the black hole")
            .map(Self)
    }
}

impl Drop for Blackhole {
    fn drop(&mut self) {
        // `wait` closes the pipe first.
        let _ = self.0.wait();
    }
}

fn rules(address: &str) -> Outcome<String> {
    let address: SocketAddr = address
        .parse()
        .map_err(|_| Failure::new(format!("{address:?} is no address with a port")))?;
    let (ip, port) = (address.ip(), address.port());
    let family = if address.is_ipv4() { "ip" } else { "ip6" };
    Ok(format!(
        "{family} daddr {ip} tcp dport {port} drop\n{family} saddr {ip} tcp sport {port} drop\n"
    ))
}
