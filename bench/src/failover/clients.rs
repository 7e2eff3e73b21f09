//! The drivers without a pool: each task has a client of its own, drops it after any failure and connects anew by the
//! driver's own list of hosts.

use std::future::Future;
use std::pin::Pin;

use super::contender::{Hosts, TASKS, WRITE, Writer, Writers};
use super::kinds;

/// The two drivers have the same shape and not the same types.
macro_rules! client_of {
    ($writer:ident, $build:ident, $driver:ident, $kind:path, $closed:expr) => {
        struct $writer {
            config: $driver::Config,
            client: Option<$driver::Client>,
        }

        pub fn $build(hosts: &Hosts, options: &str) -> Writers {
            let config: $driver::Config = hosts.url(options).parse().expect("the string is good");
            let writer = |_| $writer {
                config: config.clone(),
                client: None,
            };
            (0..TASKS)
                .map(|task| Box::new(writer(task)) as Box<dyn Writer>)
                .collect()
        }

        impl $writer {
            async fn try_write(&mut self) -> Result<String, $driver::Error> {
                let client = match &mut self.client {
                    Some(client) => client,
                    none => {
                        let (client, connection) = self.config.connect($driver::NoTls).await?;
                        tokio::spawn(connection);
                        none.insert(client)
                    }
                };
                let messages = client.simple_query(WRITE).await?;
                let server = messages.iter().find_map(|message| match message {
                    $driver::SimpleQueryMessage::Row(row) => row.get(0),
                    _ => None,
                });
                Ok(server.unwrap_or_default().to_owned())
            }
        }

        impl Writer for $writer {
            fn write(&mut self) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send + '_>> {
                Box::pin(async {
                    let written = self.try_write().await;
                    if written.is_err() {
                        self.given_up();
                    }
                    written.map_err(|error| $kind(&error))
                })
            }

            fn given_up(&mut self) {
                if let Some(client) = self.client.take() {
                    $closed(&self.config, &client);
                }
            }
        }
    };
}

client_of!(
    OfTokioPostgres,
    bare,
    tokio_postgres,
    kinds::of_tokio_postgres,
    |_: &_, _: &_| {}
);
client_of!(
    OfYugabyte,
    yugabyte,
    yb_tokio_postgres,
    kinds::of_yugabyte,
    // It lowers a count, which was raised only if the driver chose the host.
    |config: &yb_tokio_postgres::Config, client: &_| {
        if config.get_load_balance() != "false" {
            yb_tokio_postgres::close(client);
        }
    }
);
