//! The testkit does to real servers what it says.

use pgsteer_testkit::Universe;

#[test]
fn three_servers_list_each_other() {
    let t = std::time::Instant::now();
    let universe = Universe::builder().servers(3).start();
    eprintln!("{:?}", t.elapsed());
    let hosts = universe.server(2).sql("SELECT host, zone FROM yb_servers()");
    eprintln!("{hosts:?}");
    let t = std::time::Instant::now();
    universe.server(1).kill();
    eprintln!("kill {:?}", t.elapsed());
    let t = std::time::Instant::now();
    universe.server(1).start();
    eprintln!("start {:?}", t.elapsed());
    let t = std::time::Instant::now();
    drop(universe);
    eprintln!("drop {:?}", t.elapsed());
}
