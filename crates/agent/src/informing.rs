//! What an agent elsewhere is to know of whoever samples its node: it starts no provider itself.

use std::rc::Rc;
use std::time::Duration;

use rakuda_link::io::StateSource;

use crate::providers::ExternalProvider;

/// Samples this node, and has ready what is to be told of it.
pub trait Inform: StateSource {
    /// Samples so often from now on, runs these programs, and calls `news` when there is something to tell; with no
    /// time between, not any more. What was told before is told again. Must be called inside a `tokio::task::LocalSet`.
    fn sample(&self, period: Duration, providers: Vec<ExternalProvider>, news: Rc<dyn Fn()>);

    /// Samples now, too, when it samples at all.
    fn sample_now(&self);

    /// Kills what providers have running; no more of them is started.
    fn end(&self);
}
