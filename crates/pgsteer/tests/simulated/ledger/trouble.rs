//! What servers do to their sessions: they die around any statement, above all around COMMIT, refuse it, fall silent, and
//! whole servers go and come back.

use bytes::{BufMut, Bytes, BytesMut};
use pgsteer_sim::{Death, Effect, Scope, Script, Server, Shutdown, Sim};

use crate::rig::*;

/// Makes trouble for ever.
pub(crate) async fn make(sim: Sim, seed: u64) {
    let mut random = fastrand::Rng::with_seed(!seed);
    loop {
        tokio::time::sleep(millis(random.u64(1..250))).await;
        let servers = sim.servers();
        let server = &servers[random.usize(..servers.len())];
        match random.u32(0..20) {
            0..14 => server.script(script(&mut random)),
            14 => server.terminate_all(),
            15 => {
                server.kill(death(&mut random));
                later(server, &mut random, Server::start);
            }
            16 => {
                server.shut_down([Shutdown::Fast, Shutdown::Immediate, Shutdown::Crash][random.usize(..3)]);
                later(server, &mut random, Server::start);
            }
            17 => {
                server.freeze();
                later(server, &mut random, Server::thaw);
            }
            18 => {
                server.partition();
                later(server, &mut random, Server::heal);
            }
            // Whatever has become of them.
            _ => servers.iter().for_each(Server::mend),
        }
    }
}

/// Mends it after a while.
fn later(server: &Server, random: &mut fastrand::Rng, mend: fn(&Server)) {
    let (server, time) = (server.clone(), millis(random.u64(10..3000)));
    tokio::spawn(async move {
        tokio::time::sleep(time).await;
        mend(&server);
    });
}

fn death(random: &mut fastrand::Rng) -> Death {
    [Death::Fin, Death::Rst, Death::Silence][random.usize(..3)]
}

/// What happens at the next statement of a kind.
fn script(random: &mut fastrand::Rng) -> Script {
    let statement = ["commit", "commit", "commit", "insert", "begin", "rollback"][random.usize(..6)];
    let scope = if random.u32(0..4) == 0 {
        Scope::Server
    } else {
        Scope::Session
    };
    let effect = match random.u32(0..12) {
        0..3 => Effect::DieBefore(death(random), scope),
        3..6 => Effect::DieAfter(death(random), scope),
        6 => Effect::CutAnswer {
            bytes: random.usize(0..24),
            death: death(random),
        },
        7 => Effect::RunThenHang,
        8 => Effect::Hang {
            cancellable: random.bool(),
        },
        9 => Effect::error(["40001", "40P01", "57014", "40003", "XX000", "08006"][random.usize(..6)]),
        10 => Effect::fatal(["57P01", "57P02", "08P01"][random.usize(..3)]),
        _ if statement == "commit" => Effect::Raw(unconfirmed()),
        _ => Effect::Delay(millis(random.u64(1..2000))),
    };
    // INSERT has values; the others are the whole statement.
    let script = if statement == "insert" {
        Script::on
    } else {
        Script::at
    };
    script(statement, effect).once()
}

/// The answer to a COMMIT whose wait for a standby was cancelled.
fn unconfirmed() -> Bytes {
    let mut out = BytesMut::new();
    let messages: [(u8, &[u8]); 3] = [
        (
            b'N',
            b"SWARNING\0VWARNING\0C01000\0Mcancelled\0RSyncRepWaitForLSN\0\0",
        ),
        (b'C', b"COMMIT\0"),
        (b'Z', b"I"),
    ];
    for (kind, body) in messages {
        out.put_u8(kind);
        out.put_i32(i32::try_from(body.len() + 4).expect("a short message"));
        out.put_slice(body);
    }
    out.freeze()
}
