//! A relay in front of servers, like a virtual address: new connections go to whatever it is pointed at.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Passes connections to one address on to another. Ends when it is dropped; connections it has passed on live on.
pub(crate) struct Relay {
    address: SocketAddr,
    target: Arc<Mutex<String>>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Starts one on a free port of 127.0.0.1.
    pub(crate) async fn to(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let target = Arc::new(Mutex::new(target.to_owned()));
        let pointed = target.clone();
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(pass(client, pointed.lock().unwrap().clone()));
            }
        });
        Relay {
            address,
            target,
            task,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Passes new connections on to another address from now on.
    pub(crate) fn point_at(&self, target: &str) {
        target.clone_into(&mut self.target.lock().unwrap());
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(mut client: TcpStream, target: String) -> io::Result<()> {
    let mut server = TcpStream::connect(target).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
