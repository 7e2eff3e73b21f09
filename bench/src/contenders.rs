//! The pools that only hand out and take back: pgsteer over real connections, which a get and return does not touch,
//! and the rivals over a manager whose connections are a number and whose checks do nothing.

use std::convert::Infallible;
use std::future::Future;
use std::hint::black_box;

use deadpool::managed::{Metrics, RecycleResult};

use crate::server::Server;

/// Connections in each pool.
pub const SIZE: u32 = 10;

/// Anything that gives its connection back when dropped.
pub trait Held {}
impl<T> Held for T {}

/// A pool of [`SIZE`] connections.
pub trait Contender: Send + Sync + Sized + 'static {
    const NAME: &'static str;

    fn build(server: &Server) -> impl Future<Output = Self>;

    /// Gets a connection and returns it.
    fn get_and_return(&self) -> impl Future<Output = ()> + Send;

    /// Gets a connection, says so, lets other tasks run once, and returns it.
    fn get_yield_and_return(&self, got: impl FnOnce() + Send) -> impl Future<Output = ()> + Send;

    /// Gets all connections.
    fn get_all(&self) -> impl Future<Output = Vec<Box<dyn Held + '_>>>;

    /// Bytes of the future that gets a connection.
    fn future_size(&self) -> usize;

    /// Opens all connections, so that later gets find them idle.
    fn open_all(&self) -> impl Future<Output = ()> {
        async { drop(self.get_all().await) }
    }
}

/// The measured code, the same for all: `$get` is the pool's own method.
macro_rules! contender {
    ($contender:ident, $name:literal, $get:ident, $build:expr) => {
        impl Contender for $contender {
            const NAME: &'static str = $name;

            async fn build(server: &Server) -> Self {
                let build = $build;
                let contender = $contender(build(server).await);
                contender.open_all().await;
                contender
            }

            #[inline]
            async fn get_and_return(&self) {
                let connection = self.0.$get().await.expect("a connection comes");
                black_box(&*connection);
            }

            #[inline]
            async fn get_yield_and_return(&self, got: impl FnOnce() + Send) {
                let connection = self.0.$get().await.expect("a connection comes");
                got();
                black_box(&*connection);
                tokio::task::yield_now().await;
            }

            async fn get_all(&self) -> Vec<Box<dyn Held + '_>> {
                let mut all: Vec<Box<dyn Held + '_>> = Vec::new();
                for _ in 0..SIZE {
                    all.push(Box::new(self.0.$get().await.expect("a connection comes")));
                }
                all
            }

            fn future_size(&self) -> usize {
                size_of_val(&self.0.$get())
            }
        }
    };
}

/// pgsteer with guards that borrow the pool.
pub struct Borrowed(pgsteer::Pool);
/// pgsteer with guards that own their share of it.
pub struct Owned(pgsteer::Pool);
pub struct Deadpool(deadpool::managed::Pool<Nothing>);
pub struct Bb8(bb8::Pool<Nothing>);

contender!(Borrowed, "pgsteer, get_ref", get_ref, async |server: &Server| {
    server.pool(SIZE).await
});
contender!(Owned, "pgsteer, get", get, async |server: &Server| server
    .pool(SIZE)
    .await);
contender!(Deadpool, "deadpool", get, async |_: &Server| {
    deadpool::managed::Pool::builder(Nothing)
        .max_size(SIZE as usize)
        .build()
        .expect("it needs no runtime")
});
contender!(Bb8, "bb8", get, async |_: &Server| {
    bb8::Pool::builder()
        .max_size(SIZE)
        .build(Nothing)
        .await
        .expect("opening cannot fail")
});

/// Opens connections that are nothing and checks nothing.
pub struct Nothing;

impl deadpool::managed::Manager for Nothing {
    type Type = u64;
    type Error = Infallible;

    async fn create(&self) -> Result<u64, Infallible> {
        Ok(0)
    }

    async fn recycle(&self, _: &mut u64, _: &Metrics) -> RecycleResult<Infallible> {
        Ok(())
    }
}

impl bb8::ManageConnection for Nothing {
    type Connection = u64;
    type Error = Infallible;

    async fn connect(&self) -> Result<u64, Infallible> {
        Ok(0)
    }

    async fn is_valid(&self, _: &mut u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, _: &mut u64) -> bool {
        false
    }
}
