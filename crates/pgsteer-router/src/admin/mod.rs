//! Metrics and health over HTTP: `/metrics`, `/healthz`, `/readyz`.
//!
//! `/healthz` says that the process runs. `/readyz` says whether new clients are welcome, and is the first thing that a
//! drain changes.

mod visits;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use visits::{Visit, Visits};

use crate::metrics::{Scrape, TEXT_TYPE};
use crate::server::Shared;

/// The most connections at a time. One that comes then takes the place of the oldest that has not asked for anything yet, so
/// that connections held open in silence keep nobody from an answer.
const MOST: usize = 64;

/// How long the head of a request may take, and how long the whole of it with its answer.
const HEAD: Duration = Duration::from_secs(5);
const WHOLE: Duration = Duration::from_secs(30);

/// Between attempts to accept when the system has no descriptors.
const REST: Duration = Duration::from_millis(100);

struct Admin {
    shared: Arc<Shared>,
    scrape: Scrape,
}

/// Answers until it is told to stop.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let scrape = Scrape::of(Arc::clone(&shared));
    let admin = Arc::new(Admin { shared, scrape });
    let places = Arc::new(Semaphore::new(MOST));
    let mut visits = Visits::default();
    let accepting = async {
        loop {
            let Ok((socket, _)) = listener.accept().await else {
                sleep(REST).await;
                continue;
            };
            if places.available_permits() == 0 {
                visits.send_one_away();
            }
            // Never closed.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            let visit = visits.begin(stop.child_token());
            let admin = Arc::clone(&admin);
            tokio::spawn(async move {
                let serving = timeout(WHOLE, admin.connection(socket, &visit));
                // How a scraper goes is its own affair.
                let _ = visit.leave.run_until_cancelled(serving).await;
                drop(place);
            });
        }
    };
    stop.run_until_cancelled(accepting).await;
}

impl Admin {
    async fn connection(&self, socket: TcpStream, visit: &Visit) -> hyper::Result<()> {
        let service = service_fn(|request: Request<Incoming>| async move {
            visit.has_asked();
            Ok::<_, Infallible>(self.answer(request.method(), request.uri().path()))
        });
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .keep_alive(false)
            .serve_connection(TokioIo::new(socket), service)
            .await
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
            return response;
        }
        match path {
            "/healthz" => plain(StatusCode::OK, "alive\n"),
            "/readyz" if self.shared.is_ready() => plain(StatusCode::OK, "ready\n"),
            "/readyz" => plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
            "/metrics" => match self.scrape.text() {
                Ok(text) => answer(StatusCode::OK, TEXT_TYPE, text.into()),
                Err(_) => plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the metrics cannot be written\n",
                ),
            },
            _ => plain(
                StatusCode::NOT_FOUND,
                "there are /metrics, /healthz and /readyz\n",
            ),
        }
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    answer(
        status,
        "text/plain; charset=utf-8",
        Bytes::from_static(text.as_bytes()),
    )
}

fn answer(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
