//! What an agent elsewhere is to know of whoever samples its node: it starts no provider itself.

use std::rc::Rc;
use std::time::Duration;

use rakuda_link::io::StateSource;

use crate::providers::ExternalProvider;

/// What is sampled of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// Between two samples; nothing: there are none.
    pub period: Duration,
    /// Programs that provide more.
    pub providers: Vec<ExternalProvider>,
    /// Folders whose file systems are sampled beside those that keep data, absolute.
    pub folders: Vec<String>,
}

/// Samples this node, and has ready what is to be told of it.
pub trait Inform: StateSource {
    /// Samples that from now on, and calls `news` when there is something to tell. What was told before is told again.
    /// Must be called inside a `tokio::task::LocalSet`.
    fn sample(&self, wanted: Sampled, news: Rc<dyn Fn()>);

    /// Has these providers sample now, too, when it samples at all; with none named, all.
    fn sample_now(&self, only: &[String]);

    /// Tells these attributes as they are from now on, by their names, however little they have moved.
    fn tell_exactly(&self, attributes: Vec<String>);

    /// Kills what providers have running; no more of them is started.
    fn end(&self);
}
