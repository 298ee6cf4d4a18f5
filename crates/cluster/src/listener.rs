//! The listener: where agents dial in, and which of them may. It opens the gate at an address that they can reach.
//!
//! It does not know nodes, nor what becomes of the agents that it lets in.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use rakuda_link::credentials::Authority;
use rakuda_link::gate::{DialIn, Gate};
use rakuda_link::invitation::Invitation;
use rakuda_link::tcp::address_towards;
use tokio::sync::mpsc::UnboundedReceiver;

/// Somewhere beyond this network (RFC 5737); nothing is sent there.
const FAR_AWAY: &str = "192.0.2.1";

/// Where the run listens, and which agents may come in.
pub(crate) struct Listener {
    authority: Authority,
    gate: Gate,
}

impl Listener {
    /// Listens at `listen` (`HOST` or `HOST:PORT`), else at the address that this machine has on its way to the host
    /// `towards`, else at the first one of its own name, or on its way out, that others can use. An agent that connects
    /// needs the run's credentials.
    pub async fn open(listen: Option<&str>, towards: Option<&str>) -> Result<Self, String> {
        let address = address(listen, towards)?;
        let authority = Authority::new().map_err(|error| format!("failed to {error}"))?;
        let gate = Gate::open(address, &authority).await;
        let gate = gate.map_err(|error| format!("failed to {error}"))?;
        Ok(Self { authority, gate })
    }

    /// An invitation for all agents of one launch, and those that come with it.
    pub fn invite(&self) -> Result<(Invitation, UnboundedReceiver<DialIn>), String> {
        let credentials = self.authority.issue().map_err(|error| format!("failed to {error}"))?;
        let dial_ins = self.gate.admit(credentials.token.clone());
        Ok((Invitation { address: self.gate.address().to_string(), credentials }, dial_ins))
    }
}

/// Where to listen.
fn address(listen: Option<&str>, towards: Option<&str>) -> Result<SocketAddr, String> {
    if let Some(listen) = listen {
        let found = match listen.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() && listen.parse::<IpAddr>().is_err() => {
                listen.to_socket_addrs()
            }
            _ => (listen, 0).to_socket_addrs(),
        };
        let found = found
            .map_err(|error| error.to_string())
            .and_then(|mut found| found.next().ok_or_else(|| "it has no address".to_owned()));
        return found.map_err(|why| {
            format!("cannot listen at {listen}: {why}; expected an address of this machine, HOST or HOST:PORT (--listen)")
        });
    }
    if let Some(towards) = towards {
        let found = address_towards(towards);
        return found.map(|address| (address, 0).into()).map_err(|error| {
            format!("cannot find the way to {towards}: {error}; say at which address of this machine agents find it (--listen HOST)")
        });
    }
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let of_own_name = (own.as_str(), 0).to_socket_addrs().into_iter().flatten();
    let addresses = of_own_name.map(|address| address.ip()).chain(address_towards(FAR_AWAY));
    let beyond = |address: &IpAddr| !address.is_loopback() && !address.is_unspecified();
    addresses.into_iter().find(beyond).map(|address| (address, 0).into()).ok_or_else(|| {
        format!("cannot tell by which address others find {own}: say which (--listen HOST)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_set_is_taken_and_a_wrong_one_told() {
        assert_eq!(address(Some("127.0.0.1"), None), Ok(([127, 0, 0, 1], 0).into()));
        assert_eq!(address(Some("127.0.0.1:4711"), Some("x")), Ok(([127, 0, 0, 1], 4711).into()));
        assert_eq!(address(None, Some("127.0.0.1")), Ok(([127, 0, 0, 1], 0).into()));
        let error = address(Some("no.such.host.invalid"), None).unwrap_err();
        assert!(error.contains("expected an address of this machine"), "{error}");
    }
}
