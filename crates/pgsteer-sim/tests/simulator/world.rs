//! The simulation as a world for pgsteer: its names, connects and draws.

use std::io::ErrorKind;
use std::path::PathBuf;

use pgsteer::world::{Endpoint, SocketOptions};
use pgsteer_sim::{ServerSpec, Sim};
use tokio_postgres::{Config, NoTls};

#[tokio::test(start_paused = true)]
async fn names_and_connects_go_to_the_simulated_servers() {
    let sim = Sim::builder(1)
        .server(ServerSpec::new("a").socket("/run/sim/.s.PGSQL.5433"))
        .build();
    let world = sim.world();
    let address = world.resolver().resolve("a").await.unwrap()[0];
    let options = SocketOptions::default();
    let targets = [
        Endpoint::Tcp((address, 5433).into()),
        Endpoint::Unix(PathBuf::from("/run/sim/.s.PGSQL.5433")),
    ];
    for target in targets {
        let socket = world.dialler().dial(&target, &options).await.unwrap();
        let (client, connection) = Config::new()
            .user("app")
            .connect_raw(socket, NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        assert_eq!(
            client
                .query_one("SELECT rig_whoami()", &[])
                .await
                .unwrap()
                .get::<_, &str>(0),
            "a"
        );
    }
    let refused = world
        .dialler()
        .dial(&Endpoint::Tcp((address, 1).into()), &options)
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let missing = world
        .dialler()
        .dial(&Endpoint::Unix(PathBuf::from("/run/sim/other")), &options)
        .await;
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn draws_are_the_same_from_the_same_seed() {
    let draws = |seed| {
        let world = Sim::new(seed).world();
        (0..5).map(|_| world.draw()).collect::<Vec<_>>()
    };
    assert_eq!(draws(1), draws(1));
    assert_ne!(draws(1), draws(2));
}
