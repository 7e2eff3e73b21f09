//! `pgsteer route` beside HAProxy, in front of the same backends and under the same clients, all as processes of their own.
//! Contenders take turns within each round, and are compared by the median of the rounds' own ratios.

mod contender;
mod options;
mod process;
mod section;

use std::path::Path;
use std::process::ExitCode;

use crate::machine::Machine;
use crate::table::number;
use crate::turns::in_turn;
use contender::{BACKENDS, Contender, Figures, IDLE, Stand};
use options::{Options, Part, Turns};
use section::{Demands, Rows};

/// Between these lines of a page is the section.
pub const BEGIN: &str = "<!-- router: begin -->";
pub const END: &str = "<!-- router: end -->";

/// Name, bytes.
const SIZES: [(&str, &str); 3] = [("64 B", "64"), ("4 KiB", "4096"), ("256 KiB", "262144")];
const CLIENTS: [&str; 3] = ["1", "64", "1000"];
/// Clients that dial for each request.
const DIALLING: [&str; 2] = ["8", "32"];
/// As many connections to backends altogether as there are clients in the rows with 64.
const POOL: Contender = Contender::Pool(64 / BACKENDS);
/// The fastest with a thousand clients of those that were tried, from 32 to 500.
const LARGE_POOL: Contender = Contender::Pool(128);
const THEIRS: [Contender; 2] = [Contender::Haproxy(2), Contender::Haproxy(1)];
const ALL: [Contender; 6] = [
    Contender::Defaults,
    POOL,
    LARGE_POOL,
    THEIRS[0],
    THEIRS[1],
    Contender::Nothing,
];

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
        let table = match part {
            Part::Frames => frames(options, &mut demands),
            Part::Dial => dial(options, &mut demands),
            Part::Backends => backends(options, &mut demands),
            Part::Idle => idle(options, &mut demands),
        };
        tables += &format!("\n### {}\n\n{table}\n", title(*part));
    }
    let quick = if options.quick {
        "**A quick run: too short for figures to rely on.**\n\n"
    } else {
        ""
    };
    format!(
        "{quick}    cargo build --release -p pgsteer-cli\n    cargo run --release --manifest-path bench/Cargo.toml -- router \
         --program target/release/pgsteer --out docs/benchmarks.md\n\n{machine}, after it {}\n- HAProxy {haproxy}, `mode tcp`, \
         `balance leastconn`, otherwise as it comes\n\n{INTRODUCTION}\n\n{demands}{tables}",
        crate::machine::load()
    )
}

const INTRODUCTION: &str = "Two `pgsteer echo` backends of one thread each, a router, and `pgsteer load`, which checks every byte of \
    every answer: all on the same cores. Contenders take turns, in the other order in every other round; a cell is the median over the rounds, in \
    brackets the best. *Amiss* are requests of all rounds without a right answer. HAProxy is shown with a thread for each core and with one, and pgsteer with its \
    defaults (a thread for each core, 16 connections to each backend) and, in the rows with 64 and 1000 clients, also with 32, which are \
    as many connections as 64 clients have through HAProxy, and with 1000 clients also with 128. What is asked is judged by the faster of each, by the \
    median of the rounds' own ratios.";

fn title(part: Part) -> &'static str {
    match part {
        Part::Frames => "Lasting client connections, each with one request at a time",
        Part::Dial => "A client connection for each request, 64 B",
        Part::Backends => {
            "Warm connections to backends beside dialling one for each request, 64 B, 8 clients"
        }
        Part::Idle => "Clients that say nothing",
    }
}

/// Measures each contender in each round.
fn rounds(
    turns: Turns,
    stand: &Stand<'_>,
    rows: &mut Rows,
    what: &str,
    contenders: &[Contender],
    load: &[&str],
) {
    let load = [load, &["--warmup", turns.warmup, "--seconds", turns.seconds]].concat();
    for round in 0..turns.rounds {
        in_turn(round, contenders, |contender| {
            let figures = stand.measure(contender, &load);
            eprintln!("{what}, {}: {figures:?}", contender.name());
            rows.add(what, contender, figures);
        });
    }
}

/// The defaults, and where there are more clients than connections to backends then, also with more of those.
fn ours(clients: &str) -> Vec<Contender> {
    match clients {
        "1" => vec![Contender::Defaults],
        "1000" => vec![Contender::Defaults, POOL, LARGE_POOL],
        _ => vec![Contender::Defaults, POOL],
    }
}

fn frames(options: &Options, demands: &mut Demands) -> String {
    let stand = Stand::start(&options.program, &[], &ALL);
    let mut rows = Rows::default();
    for (name, bytes) in SIZES {
        for clients in CLIENTS {
            let what = format!("{name}, {clients} clients").replace(" 1 clients", " 1 client");
            let load = ["--size", bytes, "--clients", clients];
            let (ours, others) = (ours(clients), [THEIRS[0], THEIRS[1], Contender::Nothing]);
            // A thousand long requests take a second to go round.
            let turns = match bytes {
                "262144" => options.long_turns(),
                _ => options.short_turns(),
            };
            rounds(
                turns,
                &stand,
                &mut rows,
                &what,
                &[&ours[..], &others].concat(),
                &load,
            );
            let speed = |figures: &Figures| figures.answers_per_s;
            let (ours, theirs) = (rows.best(&what, &ours, speed), rows.best(&what, &THEIRS, speed));
            let against = |figure| rows.ratio(&what, ours, theirs, figure);
            demands.at_least(
                &format!("{what}: throughput, times HAProxy's"),
                1.0,
                "x",
                against(speed),
            );
            let slowest = against(|figures| figures.p99_us);
            demands.at_most(&format!("{what}: p99, times HAProxy's"), 1.0, "x", slowest);
        }
    }
    format!(
        "{rows}\nHAProxy in TCP mode knows no frames: it gives each client a connection to one backend for as long as that client stays, \
         so it balances connections, copies bytes, and keeps as many connections to the backends as there are clients. pgsteer chooses a \
         backend for every request, over a bounded number of connections, checks that the answer is whole, and answers an error where a \
         backend fails."
    )
}

/// Those with a client connection for each request.
const DIALLED: [Contender; 4] = [Contender::Defaults, THEIRS[0], THEIRS[1], Contender::Nothing];

fn dial(options: &Options, demands: &mut Demands) -> String {
    let stand = Stand::start(&options.program, &[], &DIALLED);
    let mut rows = Rows::default();
    let mut best: (f64, f64) = (0.0, f64::NAN);
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
        rounds(options.long_turns(), &stand, &mut rows, &what, &DIALLED, &load);
        let median = |figure| rows.median(&what, Contender::Defaults, figure);
        let (speed, cpu) = (
            median(|figures| figures.answers_per_s),
            median(|figures| figures.cpu_s_per_100k),
        );
        if speed > best.0 {
            best = (speed, cpu);
        }
    }
    let what = "a client connection for each request";
    demands.at_least(&format!("{what}: answers a second"), 20_000.0, "", best.0);
    demands.below(&format!("{what}: CPU s per 100 000 meanwhile"), 5.6, "", best.1);
    format!(
        "{rows}\nEach request dials, is answered, and closes by a reset, so that no ports run out. HAProxy dials a backend for each of \
         them as well; pgsteer has warm connections. A request's time begins before its connect."
    )
}

fn backends(options: &Options, demands: &mut Demands) -> String {
    const WARM: &str = "backends keep connections";
    const DIALLED: &str = "backends close after each answer";
    const CONTENDER: Contender = Contender::Defaults;
    let mut rows = Rows::default();
    for (what, echo) in [(WARM, &[][..]), (DIALLED, &["--answers-per-connection", "1"])] {
        let stand = Stand::start(&options.program, echo, &[CONTENDER]);
        let load = ["--size", "64", "--clients", "8"];
        rounds(options.long_turns(), &stand, &mut rows, what, &[CONTENDER], &load);
    }
    let speed = |what| rows.median(what, CONTENDER, |figures| figures.answers_per_s);
    demands.at_least(
        "warm connections to backends: throughput, times dialling for each request",
        1.0,
        "x",
        speed(WARM) / speed(DIALLED),
    );
    format!("{rows}\nThe same router and clients; only the backends differ.")
}

fn idle(options: &Options, demands: &mut Demands) -> String {
    const CONTENDER: Contender = Contender::Defaults;
    let stand = Stand::start(&options.program, &[], &[CONTENDER]);
    let each = stand.idle_client(CONTENDER) / 1024.0;
    demands.below("memory of a client that says nothing", 8.0, " KiB", each);
    format!(
        "With {} clients that are connected and say nothing, {} KiB more are resident in pgsteer for each of them than before, after some \
         load.",
        number(f64::from(IDLE)),
        number(each)
    )
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
