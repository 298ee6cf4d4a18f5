//! The agent's end of a link: says hello, and passes messages on.
//!
//! It does not know commands, nor what is to be done when the link is lost.

use std::rc::Rc;

use rakuda_proto::Text;
use rakuda_proto::cluster::{FromAgent, Hello, NodeFacts, ToAgent, Welcome};

pub use crate::greeting::GreetingError;
use crate::greeting::say_hello;
use crate::hub::{Reader, VERSION, Writer};
use crate::io::{Came, Ending, Link, MachineClock, StateSource};
use crate::session::Limits;

/// Maximum silence of the hub until its welcome says more.
const FIRST_SILENCE_MS: u32 = 10_000;

/// The identity of the agent.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Which node, by what it was given when it was launched; empty over a pipe.
    pub token: Text,
    /// Drawn at random; the same for all connections of this agent.
    pub session: u64,
    /// What the node has.
    pub facts: NodeFacts,
}

/// A connection on which hub and agent have greeted each other.
pub struct Connection {
    /// What the hub said.
    pub welcome: Welcome,
    reader: Reader,
    writer: Writer,
    decoder: crate::frame::Decoder,
}

/// The agent's link to its hub.
#[derive(Debug)]
pub struct AgentLink {
    link: Link<ToAgent>,
    identity: Identity,
}

impl AgentLink {
    /// One without a connection.
    pub fn new(identity: Identity) -> Self {
        Self { link: Link::new(Limits::with_silence_ms(FIRST_SILENCE_MS)), identity }
    }

    /// Sets the clock that answers the hub's questions for the time. Without one such a question
    /// ends the link.
    pub fn set_clock(&self, clock: MachineClock) {
        self.link.set_clock(clock);
    }

    /// Greets the hub over a new connection, the first one or another.
    pub async fn greet(
        &self,
        mut reader: Reader,
        mut writer: Writer,
    ) -> Result<Connection, GreetingError> {
        let hello = Hello {
            version: VERSION.to_owned(),
            token: self.identity.token.clone(),
            session: self.identity.session,
            received: self.link.received(),
            facts: self.identity.facts.clone(),
        };
        let (welcome, decoder) = say_hello(&mut reader, &mut writer, &hello).await?;
        self.link.set_limits(&welcome.settings);
        self.link
            .reconnect(welcome.received)
            .map_err(|error| GreetingError::NoGreeting(error.to_string()))?;
        Ok(Connection { welcome, reader, writer, decoder })
    }

    /// Passes messages on until the connection ends.
    pub async fn serve(
        &self,
        connection: Connection,
        mut on_message: impl FnMut(ToAgent),
    ) -> Ending {
        let Connection { reader, writer, decoder, .. } = connection;
        let on_came = |came| match came {
            Came::Message(message) => on_message(message),
            // It asks nothing, and has no state to tell.
            Came::Exchange(_) | Came::State(_) => {}
        };
        self.link.serve(reader, writer, decoder, on_came).await
    }

    /// Sets the source of the states of the node, which are sent again and again.
    pub fn set_state_source(&self, source: Rc<dyn StateSource>) {
        self.link.set_state_source(source);
    }

    /// There is a newer state of it.
    pub fn offer_state(&self) {
        self.link.offer_state();
    }

    /// Sends a message, now or with the next connection.
    pub fn send(&self, message: &FromAgent) {
        self.link.send(message);
    }

    /// Ends the link once all is sent.
    pub fn say_bye(&self, why: &str) {
        self.link.say_bye(why);
    }

    /// Whether commands should be read no further for now.
    pub fn is_full(&self) -> bool {
        self.link.is_full()
    }

    /// Waits until they may be read again.
    pub async fn room(&self) {
        self.link.room().await;
    }
}
