//! What an agent elsewhere needs of the part that samples its node. The agent starts no provider itself.

use std::rc::Rc;
use std::time::Duration;

use rakuda_link::io::StateSource;

use crate::providers::ExternalProvider;

/// What is sampled of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// Time between two samples. Zero: there are none.
    pub period: Duration,
    /// Programs that provide more.
    pub providers: Vec<ExternalProvider>,
    /// Folders whose file systems are sampled beside those that keep data, absolute.
    pub folders: Vec<String>,
}

/// Samples this node, and has ready what the hub is to know of it.
pub trait Inform: StateSource {
    /// Samples that from now on, and calls `news` when there is something to send. What was sent before is sent again.
    /// Must be called inside a `tokio::task::LocalSet`.
    fn sample(&self, wanted: Sampled, news: Rc<dyn Fn()>);

    /// Has these providers sample now, too, when it samples at all. An empty list means all of them.
    fn sample_now(&self, only: &[String]);

    /// Tells these attributes as they are from now on, by their names, however little they have moved.
    fn tell_exactly(&self, attributes: Vec<String>);

    /// Kills what providers have running; no more of them is started.
    fn end(&self);
}
