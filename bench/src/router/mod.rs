//! `pgsteer route` beside HAProxy, in front of the same backends and under the same clients, all as processes of their own.
//! Contenders take turns within each round, and medians of the rounds are compared.

mod contender;
mod options;
mod process;
mod section;

use std::path::Path;
use std::process::ExitCode;

use crate::machine::Machine;
use contender::{Contender, Stand};
use options::{Options, Part};
use section::{Demands, Rows};

/// Between these lines of a page is the section.
pub const BEGIN: &str = "<!-- router: begin -->";
pub const END: &str = "<!-- router: end -->";

/// Name, bytes.
const SIZES: [(&str, &str); 3] = [("64 B", "64"), ("4 KiB", "4096"), ("256 KiB", "262144")];
const CLIENTS: [&str; 3] = ["1", "64", "1000"];
/// Clients that dial for each request.
const DIALLING: [&str; 2] = ["8", "32"];
const ALL: [Contender; 3] = [Contender::Pgsteer, Contender::Haproxy, Contender::Nothing];

pub fn main(arguments: impl Iterator<Item = String>) -> ExitCode {
    let options = match Options::from_arguments(arguments) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    let Some(haproxy) = process::haproxy_version() else {
        eprintln!("HAProxy is not installed; as root on Debian or Ubuntu: apt-get install haproxy");
        return ExitCode::FAILURE;
    };
    let section = measure(&options, &haproxy);
    println!("{section}");
    match options.out.as_deref().map(|path| insert(path, &section)) {
        Some(Err(problem)) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn measure(options: &Options, haproxy: &str) -> String {
    let machine = Machine::describe(None);
    let mut demands = Demands::default();
    let mut tables = String::new();
    for part in &options.parts {
        let (table, remarks) = match part {
            Part::Frames => frames(options, &mut demands),
            Part::Dial => dial(options, &mut demands),
            Part::Backends => backends(options, &mut demands),
        };
        tables += &format!("\n### {}\n\n{table}\n{remarks}\n", title(*part));
    }
    let quick = if options.quick {
        "**A quick run: too short for figures to rely on.**\n\n"
    } else {
        ""
    };
    format!(
        "{quick}    cargo build --release -p pgsteer-cli\n    cargo run --release --manifest-path bench/Cargo.toml -- router \
         --program target/release/pgsteer --out docs/benchmarks.md\n\n{machine}, after it {}\n- HAProxy {haproxy}, `mode tcp`, \
         `balance leastconn`, two threads, otherwise as it comes\n\nTwo `pgsteer echo` backends of one thread each, `pgsteer route` with \
         its defaults, and `pgsteer load`, which checks every byte of every answer: all on the same cores. A cell is the median over the \
         rounds, in brackets the best; contenders take turns. *Amiss* are requests of all rounds without a right answer.\n\n{demands}\n\
         {tables}",
        crate::machine::load()
    )
}

fn title(part: Part) -> &'static str {
    match part {
        Part::Frames => "Lasting client connections, each with one request at a time",
        Part::Dial => "A client connection for each request, 64 B",
        Part::Backends => {
            "Warm connections to backends beside dialling one for each request, 64 B, 8 clients"
        }
    }
}

/// Measures each contender in each round.
fn rounds(
    options: &Options,
    stand: &Stand<'_>,
    rows: &mut Rows,
    what: &str,
    contenders: &[Contender],
    load: &[&str],
) {
    let (warmup, seconds) = options.seconds();
    let load = [load, &["--warmup", warmup, "--seconds", seconds]].concat();
    for _ in 0..options.rounds() {
        for contender in contenders {
            let figures = stand.measure(*contender, &load);
            eprintln!("{what}, {}: {figures:?}", contender.name());
            rows.add(what, *contender, figures);
        }
    }
}

fn frames(options: &Options, demands: &mut Demands) -> (Rows, &'static str) {
    let stand = Stand::start(&options.program, &[]);
    let mut rows = Rows::default();
    for (name, bytes) in SIZES {
        for clients in CLIENTS {
            let what = format!("{name}, {clients} clients").replace(" 1 clients", " 1 client");
            let load = ["--size", bytes, "--clients", clients];
            rounds(options, &stand, &mut rows, &what, &ALL, &load);
            let against = |figure| {
                let ours = rows.median(&what, Contender::Pgsteer, figure);
                ours / rows.median(&what, Contender::Haproxy, figure)
            };
            demands.at_least(
                &format!("{what}: throughput, times HAProxy's"),
                1.0,
                "x",
                against(|figures| figures.answers_per_s),
            );
            demands.at_most(
                &format!("{what}: p99, times HAProxy's"),
                1.0,
                "x",
                against(|figures| figures.p99_us),
            );
        }
    }
    let remarks = "HAProxy in TCP mode knows no frames: it gives each client a connection to one backend for as long as that client \
        stays, so it balances connections, copies bytes, and keeps as many connections to the backends as there are clients. pgsteer \
        chooses a backend for every request, over 16 connections to each at most, checks that the answer is whole, and answers an error \
        where a backend fails.";
    (rows, remarks)
}

fn dial(options: &Options, demands: &mut Demands) -> (Rows, &'static str) {
    let stand = Stand::start(&options.program, &[]);
    let mut rows = Rows::default();
    for clients in DIALLING {
        let what = format!("{clients} clients");
        let load = [
            "--size",
            "64",
            "--clients",
            clients,
            "--dial-per-request",
            "--reset",
        ];
        rounds(options, &stand, &mut rows, &what, &ALL, &load);
    }
    let ours = |clients: &str, figure| rows.median(&format!("{clients} clients"), Contender::Pgsteer, figure);
    let fastest = DIALLING
        .iter()
        .map(|clients| ours(clients, |figures| figures.answers_per_s));
    demands.at_least(
        "a client connection for each request: answers a second",
        20_000.0,
        "",
        fastest.fold(0.0, f64::max),
    );
    let cpu = DIALLING
        .iter()
        .map(|clients| ours(clients, |figures| figures.cpu_s_per_100k));
    demands.below(
        "a client connection for each request: CPU s per 100 000",
        5.6,
        "",
        cpu.fold(0.0, f64::max),
    );
    let remarks = "Each request dials, is answered, and closes by a reset, so that no ports run out. HAProxy dials a backend for each of \
        them as well; pgsteer has warm connections. A request's time begins before its connect.";
    (rows, remarks)
}

fn backends(options: &Options, demands: &mut Demands) -> (Rows, &'static str) {
    const WARM: &str = "backends keep connections";
    const DIALLED: &str = "backends close after each answer";
    let warm = Stand::start(&options.program, &[]);
    let dialled = Stand::start(&options.program, &["--answers-per-connection", "1"]);
    let mut rows = Rows::default();
    let load = ["--size", "64", "--clients", "8"];
    rounds(options, &warm, &mut rows, WARM, &[Contender::Pgsteer], &load);
    rounds(
        options,
        &dialled,
        &mut rows,
        DIALLED,
        &[Contender::Pgsteer],
        &load,
    );
    let speed = |what| rows.median(what, Contender::Pgsteer, |figures| figures.answers_per_s);
    demands.at_least(
        "warm connections to backends: throughput, times dialling for each request",
        1.0,
        "x",
        speed(WARM) / speed(DIALLED),
    );
    (rows, "The same router and clients; only the backends differ.")
}

/// Puts the section between the two lines of the file.
fn insert(path: &Path, section: &str) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(told)?;
    let parts = text
        .split_once(BEGIN)
        .and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = parts.ok_or_else(|| format!("{} lacks the two lines", path.display()))?;
    std::fs::write(path, format!("{head}{BEGIN}\n{section}\n{END}{tail}")).map_err(told)
}
