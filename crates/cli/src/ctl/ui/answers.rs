//! What is asked of the page's server, and what is answered. What reads, computes or waits for the hub runs in a thread
//! of its own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use rakuda_info::format::metrics::Format;
use rakuda_record::report::html;
use rakuda_service::http::{Asked, Body, Reply};
use serde_json::Value;

use super::metrics;
use super::watch::{Known, Watch};

/// Time without news after which the server tells a page that there are none, so that the page notices a server that is
/// gone.
const SILENCE: Duration = Duration::from_secs(15);
const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";
/// HTTP's numbers.
const OK: u16 = 200;
const NOT_FOUND: u16 = 404;
const UNAVAILABLE: u16 = 503;

/// The server's side of the page.
pub struct Answers {
    watch: Watch,
    /// Pages that follow, and reports that are being made or read.
    open: Rc<Cell<usize>>,
}

/// A page follows, or reads a report, as long as this is there.
struct Open(Rc<Cell<usize>>);

impl Open {
    fn new(open: &Rc<Cell<usize>>) -> Self {
        open.set(open.get() + 1);
        Self(Rc::clone(open))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Answers {
    /// Of this run.
    pub fn new(watch: Watch) -> Self {
        Self { watch, open: Rc::default() }
    }

    /// What it tells of.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Waits until no page follows or reads.
    pub async fn be_read(&self) {
        while self.open.get() > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Answers one request that was let in.
    pub async fn respond(self: Rc<Self>, asked: Asked) -> Reply {
        let path: Vec<&str> = asked.path.split('/').skip(1).collect();
        if asked.method.as_str() != "GET" {
            return Reply::not_allowed(&asked, "GET, HEAD");
        }
        match path.as_slice() {
            [""] => Made::good(HTML, html::live()).reply(),
            ["v1", "run", "events"] => self.events(&asked),
            ["v1", "run", "tasks", number] => match number.parse() {
                Ok(number) => self.task(number).await,
                Err(_) => Made::failed(NOT_FOUND, "expected the number of a task").reply(),
            },
            ["v1", "run", "waiting"] => {
                let words = asked.of("words").unwrap_or_default().to_owned();
                let watch = self.watch.clone();
                made(move || Ok(Made::good(JSON, watch.find(&words).to_string()))).await
            }
            ["v1", "run", "nodes"] => self.nodes().await,
            ["v1", "run", "pictures"] => {
                let watch = self.watch.clone();
                made(move || Ok(Made::good(JSON, watch.pictures().to_string()))).await
            }
            ["metrics"] => self.metrics(&asked).await,
            ["report"] => self.report().await,
            _ => Made::failed(
                NOT_FOUND,
                "expected /, /report, /metrics, /v1/run/events, /v1/run/tasks/N, /v1/run/waiting, /v1/run/nodes or /v1/run/pictures",
            )
            .reply(),
        }
    }

    /// All that a page does not know, then what is new after each look, until the run has ended.
    fn events(&self, asked: &Asked) -> Reply {
        let since = asked.of("since").and_then(|it| it.parse().ok()).unwrap_or(0);
        let known = Rc::new(RefCell::new(Known::up_to(since)));
        let changes = Rc::new(tokio::sync::Mutex::new(self.watch.changes()));
        let (watch, open) = (self.watch.clone(), Open::new(&self.open));
        let body = Body::events(move || {
            let _ = &open;
            let (watch, known, changes) = (watch.clone(), Rc::clone(&known), Rc::clone(&changes));
            Box::pin(async move {
                let mut changes = changes.lock().await;
                loop {
                    let news = watch.news(&mut known.borrow_mut());
                    if let Some(news) = news {
                        return Some(format!("data: {news}\n\n").into());
                    }
                    if watch.ended().is_some() {
                        return None;
                    }
                    match tokio::time::timeout(SILENCE, changes.changed()).await {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) => return None,
                        Err(_) => return Some(": nothing new\n\n".into()),
                    }
                }
            })
        });
        Reply::events(body)
    }

    async fn task(&self, number: u32) -> Reply {
        let watch = self.watch.clone();
        made(move || {
            Ok(match watch.task(number) {
                Some(task) => Made::good(JSON, task.to_string()),
                None => Made::failed(NOT_FOUND, "there is no such task"),
            })
        })
        .await
    }

    async fn nodes(&self) -> Reply {
        let watch = self.watch.clone();
        made(move || {
            // At the end of a run the hub is gone before the page is: no fault that a browser should report.
            let status = watch.nodes().ok().flatten().unwrap_or_default();
            Ok(Made::good(JSON, status.to_string()))
        })
        .await
    }

    async fn metrics(&self, asked: &Asked) -> Reply {
        let accept = asked.headers.get("accept").and_then(|accept| accept.to_str().ok());
        let format = Format::of(accept);
        let watch = self.watch.clone();
        made(move || {
            let (status, tables): (Option<Value>, Value) = watch.latest();
            let text = metrics::write(status.as_ref(), &tables, watch.ended().is_none(), format);
            Ok(Made::good(format.content_type(), text))
        })
        .await
    }

    async fn report(&self) -> Reply {
        let _open = Open::new(&self.open);
        let watch = self.watch.clone();
        made(move || Ok(Made::good(HTML, watch.report()?))).await
    }
}

/// An answer that was made in a thread.
struct Made {
    status: u16,
    content_type: &'static str,
    text: String,
}

impl Made {
    fn good(content_type: &'static str, text: String) -> Self {
        Self { status: OK, content_type, text }
    }

    fn failed(status: u16, message: &str) -> Self {
        let text = rakuda_info::format::json::write_error(message, None);
        Self { status, content_type: JSON, text }
    }

    fn reply(self) -> Reply {
        Reply::numbered(self.status, self.content_type, self.text)
    }
}

/// Runs in a thread of its own.
async fn made(make: impl FnOnce() -> anyhow::Result<Made> + Send + 'static) -> Reply {
    let result = tokio::task::spawn_blocking(make).await;
    let made = match result {
        Ok(Ok(made)) => made,
        Ok(Err(error)) => Made::failed(UNAVAILABLE, &format!("{error:#}")),
        Err(_) => Made::failed(UNAVAILABLE, "it could not be made"),
    };
    made.reply()
}
