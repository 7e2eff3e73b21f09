//! The router between clients and backends that both speak TLS and show certificates, as real processes under load.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::certificates::{Authority, Folder};
use crate::process::until;
use crate::tools::{Account, Echo, Load, Router, load};

/// Everybody's files.
struct Site {
    folder: Folder,
    authority: Authority,
    ca: String,
    router: [String; 2],
    client: [String; 2],
    backend: [String; 2],
}

impl Site {
    fn new() -> Self {
        let (folder, authority) = (Folder::new(), Authority::new());
        Site {
            ca: folder.write("ca.pem", &authority.pem),
            router: folder.pair("router", &authority),
            client: folder.pair("client", &authority),
            backend: folder.pair("backend", &authority),
            folder,
            authority,
        }
    }

    /// A backend that serves whoever shows a certificate of the authority's.
    fn backend(&self, options: &[&str]) -> Echo {
        let [cert, key] = &self.backend;
        let tls = ["--tls-cert", cert, "--tls-key", key, "--tls-client-ca", &self.ca];
        Echo::start(&[&tls, options].concat())
    }

    /// A router that wants certificates of its clients and shows its own to backends.
    fn router(&self, backends: &[&Echo], options: &[&str]) -> Router {
        let [cert, key] = &self.router;
        let clients = ["--tls-cert", cert, "--tls-key", key, "--tls-client-ca", &self.ca];
        let backend = ["--backend-tls", "--backend-tls-ca", &self.ca];
        let shown = ["--backend-tls-cert", cert, "--backend-tls-key", key];
        Router::start(backends, &[&clients, &backend[..], &shown, options].concat())
    }

    /// What a client with a certificate is told.
    fn client(&self) -> [&str; 7] {
        let [cert, key] = &self.client;
        ["--tls", "--ca", &self.ca, "--cert", cert, "--key", key]
    }

    fn load(&self, router: &Router, options: &[&str]) -> Account {
        load(&router.address, &[&self.client(), options].concat())
    }

    fn load_under_way(&self, router: &Router, options: &[&str]) -> Load {
        let mut load = Load::start(&router.address, &[&self.client(), options].concat());
        load.until_answered();
        load
    }
}

/// Covers: S-02, S-54
#[test]
fn under_load_every_request_gets_its_own_answer_once_whatever_its_size_and_however_clients_connect() {
    let site = Site::new();
    let backends = [site.backend(&["--jitter-ms", "2"]), site.backend(&[])];
    let router = site.router(&[&backends[0], &backends[1]], &["--pipeline", "4"]);
    let loads: [&[&str]; 5] = [
        &["--clients", "16", "--requests", "3000"],
        &["--clients", "8", "--requests", "2000", "--pipeline", "8"],
        &["--clients", "8", "--requests", "200", "--dial-per-request"],
        &["--clients", "4", "--requests", "40", "--size", "300000"],
        &["--clients", "2", "--requests", "20", "--size", "0"],
    ];

    for options in loads {
        let account = site.load(&router, options);

        account.assert_all_answered();
        assert_eq!(account.count("connect_failures"), 0, "{account:?}");
    }

    assert_eq!(router.figure("answered"), 3000 + 2000 + 200 + 40 + 20);
    let answered_by = |backend| router.figure_of("backend_handled", backend);
    assert!(backends.iter().all(|backend| answered_by(backend) > 0));
}

/// Covers: S-23, S-70
#[test]
fn backends_that_misbehave_over_tls_cost_an_error_each_and_disturb_nobody_else() {
    let site = Site::new();
    // Closing is drawn for each connection, the others for each answer.
    for fault in ["garbage@0.05", "cut=6@0.05", "close@0.6", "twice@0.05"] {
        let faulty = site.backend(&["--fault", fault, "--spare-pings", "--seed", "1"]);
        let good = site.backend(&[]);
        let router = site.router(&[&faulty, &good], &[]);

        let account = site.load(&router, &["--clients", "8", "--requests", "1000"]);

        account.assert_sound();
        account.assert_no_error_but("ERR backend read");
        assert_eq!(account.count("lost"), 0, "{fault}: {account:?}");
        assert_eq!(
            router.figure_of("backend_failed", &good),
            0,
            "{fault}: {account:?}"
        );
    }
}

/// Covers: S-51
#[test]
fn sighup_under_load_takes_new_certificates_and_authorities_for_new_clients_and_costs_nobody_a_request() {
    let site = Site::new();
    let backend = site.backend(&[]);
    let router = site.router(&[&backend], &[]);
    // These trust both authorities and show a certificate of the old one.
    let next = Authority::new();
    let both = site
        .folder
        .write("both.pem", &[&*site.authority.pem, &next.pem].concat());
    let [cert, key] = &site.client;
    let old = ["--tls", "--ca", &both, "--cert", cert, "--key", key];
    let steady = ["--clients", "8", "--rate", "400", "--seconds", "600"];
    let mut connected = Load::start(&router.address, &[&old[..], &steady].concat());
    connected.until_answered();
    let dialling = [
        "--clients",
        "4",
        "--rate",
        "40",
        "--seconds",
        "600",
        "--dial-per-request",
    ];
    let mut connecting = Load::start(&router.address, &[&old[..], &dialling].concat());
    connecting.until_answered();

    // First both authorities' clients are welcome, and the router shows a certificate of the new one.
    site.folder
        .write("ca.pem", &[&*site.authority.pem, &next.pem].concat());
    site.folder.pair("router", &next);
    let new_ca = site.folder.write("next.pem", &next.pem);
    let [new_cert, new_key] = site.folder.pair("next-client", &next);
    let new = ["--tls", "--ca", &new_ca, "--cert", &new_cert, "--key", &new_key];
    let one = ["--clients", "1", "--requests", "1"];
    assert_eq!(load_anyhow(&router, &[&new[..], &one].concat()), 0);
    router.process.signal(Signal::HUP);
    until("the new certificate is shown", || {
        load_anyhow(&router, &[&new[..], &one].concat()) == 1
    });

    // A key that is none changes nothing.
    site.folder.write("router.key", "no key");
    router.process.signal(Signal::HUP);
    until("it is refused", || {
        let said = router.process.said();
        said.contains("--tls-key") && said.contains("there is no private key in PEM form in it")
    });
    assert_eq!(load_anyhow(&router, &[&new[..], &one].concat()), 1);

    connecting.process().signal(Signal::INT);
    let connecting = connecting.end();
    connecting.assert_all_answered();
    assert_eq!(connecting.count("connect_failures"), 0, "{connecting:?}");

    // Then the old authority's clients are not, save those who are connected.
    site.folder.pair("router", &next);
    site.folder.write("ca.pem", &next.pem);
    router.process.signal(Signal::HUP);
    until("clients of the old authority are refused", || {
        load_anyhow(&router, &[&old[..], &one].concat()) == 0
    });
    assert_eq!(load_anyhow(&router, &[&new[..], &one].concat()), 1);

    connected.process().signal(Signal::INT);
    let connected = connected.end();
    connected.assert_all_answered();
    assert_eq!(
        (connected.count("connects"), connected.count("connect_failures")),
        (8, 0),
        "{connected:?}"
    );
}

/// How many were answered, whatever became of the others, of which none may have been answered wrongly.
fn load_anyhow(router: &Router, options: &[&str]) -> u64 {
    let account = load(&router.address, options);
    account.assert_sound();
    account.count("answered")
}

/// Covers: S-49, S-72
#[test]
fn sigterm_under_load_loses_nothing_that_was_accepted_and_ends_connections_in_order() {
    let site = Site::new();
    for how in [&["--dial-per-request"][..], &[]] {
        let backends = [site.backend(&["--delay-ms", "2"]), site.backend(&[])];
        let router = site.router(&[&backends[0], &backends[1]], &[]);
        let options = [&["--clients", "20", "--seconds", "3"], how].concat();
        let under_way = site.load_under_way(&router, &options);

        let ended = router.process.terminate();
        let account = under_way.end();

        assert_eq!(ended.code, Some(0), "{ended:?}");
        account.assert_sound();
        // A request sent when the router had said that it would read no more was not accepted. Anything else but an answer
        // would be a loss, and an end without a word would be told as one.
        let accounted = account.count("answered") + account.count("turned_away");
        assert_eq!(accounted, account.count("sent"), "{account:?}");
        assert!(account.count("connect_failures") > 0, "{account:?}");
    }
}

/// Whether it has been ended.
fn is_ended(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("it can be asked");
    match stream.read(&mut [0; 64]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Covers: S-10, S-19
#[test]
fn handshakes_that_come_a_byte_at_a_time_end_at_their_limit_and_hold_up_nobody() {
    let site = Site::new();
    let backend = site.backend(&[]);
    let router = site.router(&[&backend], &["--tls-handshake-timeout", "1s"]);
    // The beginning of a ClientHello of 512 bytes.
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let begun = Instant::now();
    let mut slow: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(&router.address).expect("it listens"))
        .collect();
    assert_eq!(router.figure("errors"), 0);

    let quick = Load::start(
        &router.address,
        &[&site.client()[..], &["--clients", "4", "--requests", "400"]].concat(),
    );
    let mut bytes = hello.into_iter().chain(std::iter::repeat(0));
    until("all of them are cut off", || {
        let byte = bytes.next().expect("it is endless");
        for stream in &mut slow {
            // The router may have ended it already.
            let _ = stream.write_all(&[byte]);
        }
        // They go on sending, so that nothing but a limit on the whole can end them.
        sleep(Duration::from_millis(50));
        slow.iter_mut().all(is_ended)
    });
    let took = begun.elapsed();

    quick.end().assert_all_answered();
    // 512 bytes would have taken 25 seconds.
    assert!(
        took >= Duration::from_secs(1) && took < Duration::from_secs(15),
        "{took:?}"
    );
    until("all are counted", || router.figure("errors") == 100);
}

/// Covers: S-50, S-53
#[test]
fn whoever_speaks_clear_text_where_tls_is_spoken_or_the_other_way_round_gets_no_answer_and_is_told_why() {
    let site = Site::new();
    let (over_tls, clear) = (site.backend(&[]), Echo::start(&[]));
    let [cert, key] = &site.router;
    let towards_clients = ["--tls-cert", cert, "--tls-key", key];
    let towards_backends = ["--backend-tls", "--backend-tls-ca", &site.ca];
    let stranger = Authority::new();
    let strange_ca = site.folder.write("stranger.pem", &stranger.pem);
    let [strange_cert, strange_key] = site.folder.pair("stranger-client", &stranger);

    let plain = Router::start(&[&clear], &[]);
    let secret = Router::start(&[&clear], &towards_clients);
    let mutual = site.router(&[&over_tls], &[]);
    let clear_to_tls = Router::start(&[&over_tls], &[]);
    let tls_to_clear = Router::start(&[&clear], &towards_backends);
    let unnamed = Router::start(&[&over_tls], &towards_backends);
    let with = |ca: &str, cert: &str, key: &str| {
        ["--tls", "--ca", ca, "--cert", cert, "--key", key]
            .map(str::to_owned)
            .to_vec()
    };
    let tls = vec!["--tls".to_owned(), "--ca".to_owned(), site.ca.clone()];
    let [own_cert, own_key] = &site.client;
    // Whom the client talks to, what it says, and what its requests or its connections come to.
    type Case<'a> = (&'a str, &'a Router, Vec<String>, &'a str, &'a [&'a str]);
    let cases: [Case<'_>; 8] = [
        (
            "clear text to TLS",
            &secret,
            vec![],
            "lost",
            &["oversize", "closed", "reset"],
        ),
        (
            "TLS to clear text",
            &plain,
            tls.clone(),
            "connect_failures",
            &["closed", "reset"],
        ),
        ("no certificate", &mutual, tls, "lost", &["tls", "reset"]),
        (
            "a stranger's certificate",
            &mutual,
            with(&site.ca, &strange_cert, &strange_key),
            "lost",
            &["tls", "reset"],
        ),
        (
            "a router that is a stranger",
            &mutual,
            with(&strange_ca, own_cert, own_key),
            "connect_failures",
            &["tls"],
        ),
        (
            "clear text to a TLS backend",
            &clear_to_tls,
            vec![],
            "errors",
            &["ERR backend read", "ERR backend unavailable"],
        ),
        (
            "TLS to a clear backend",
            &tls_to_clear,
            vec![],
            "errors",
            &["ERR backend unavailable"],
        ),
        (
            "no certificate for the backend",
            &unnamed,
            vec![],
            "errors",
            &["ERR backend read", "ERR backend unavailable"],
        ),
    ];

    for (case, router, options, counted, causes) in cases {
        let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
        options.extend(["--clients", "2", "--requests", "6", "--timeout", "5"]);

        let account = load(&router.address, &options);

        account.assert_sound();
        assert_eq!(
            (account.code, account.count("answered")),
            (Some(1), 0),
            "{case}: {account:?}"
        );
        let by_cause = account.total[counted].as_object().expect("by cause");
        assert_eq!(account.count(counted), 6, "{case}: {account:?}");
        assert!(
            by_cause.keys().all(|cause| causes.contains(&cause.as_str())),
            "{case}: {account:?}"
        );
    }
    let reached = clear.process.terminate().stdout.join("");
    assert!(reached.contains(" 0 requests"), "{reached}");
}

/// Covers: S-63
#[test]
fn certificates_that_cannot_be_used_are_told_by_option_and_file() {
    let site = Site::new();
    let empty = site.folder.write("empty.pem", "");
    let nothing = site.folder.path("nothing.pem");
    let [cert, key] = &site.client;
    let [_, other_key] = &site.backend;
    let load = ["load", "--target", "127.0.0.1:1", "--tls"];
    let echo = ["echo", "--listen", "127.0.0.1:0"];
    let cases: [(Vec<&str>, i32, &str, &str); 9] = [
        (
            [&load[..], &["--ca", &nothing]].concat(),
            1,
            "--ca ",
            "No such file",
        ),
        (
            [&load[..], &["--ca", &empty]].concat(),
            1,
            "--ca ",
            "there is no certificate in PEM form in it",
        ),
        (
            [&load[..], &["--ca", &site.ca, "--cert", cert, "--key", cert]].concat(),
            1,
            "--key ",
            "there is no private key in PEM form in it",
        ),
        (
            [&load[..], &["--ca", &site.ca, "--cert", cert, "--key", other_key]].concat(),
            1,
            "--key ",
            "the key does not belong to the certificate",
        ),
        (
            [&load[..], &["--ca", &site.ca, "--cert", cert]].concat(),
            2,
            "--key",
            "required",
        ),
        (
            [&load[..], &["--ca", &site.ca, "--server-name", "not a name"]].concat(),
            2,
            "--server-name",
            "it takes a host name or an address",
        ),
        (
            [&echo[..], &["--tls-cert", cert]].concat(),
            2,
            "--tls-key",
            "required",
        ),
        (
            [&echo[..], &["--tls-cert", cert, "--tls-key", &empty]].concat(),
            1,
            "--tls-key ",
            "there is no private key in PEM form in it",
        ),
        (
            [
                &echo[..],
                &["--tls-cert", cert, "--tls-key", key, "--tls-client-ca", key],
            ]
            .concat(),
            1,
            "--tls-client-ca ",
            "there is no certificate in PEM form in it",
        ),
    ];

    for (arguments, code, option, why) in cases {
        let ended = crate::process::Process::start(&arguments).end();

        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(option), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(why), "{arguments:?}: {ended:?}");
    }
}
