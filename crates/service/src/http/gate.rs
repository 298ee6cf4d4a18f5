//! What is let in: requests that address this server, from no other page, with its token.

use std::net::{IpAddr, SocketAddr};

use crate::token::Token;

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A name was resolved to this address that is not this server's.
    #[error("the header Host does not name this server")]
    Host,
    /// A page of another site asks.
    #[error("the header Origin is of another site")]
    Origin,
    /// It has no token, or another one.
    #[error("expected `Authorization: Bearer TOKEN`, with the token of the service's token file")]
    Token,
}

/// What every request must satisfy.
pub struct Gate {
    token: Token,
    /// What this machine is called, besides its addresses.
    names: Vec<String>,
    /// Paths that are no secret: pages that hold nothing but their script.
    open: &'static [&'static str],
    /// What paths of partners begin with.
    partners: Option<&'static str>,
}

impl Gate {
    /// One for a machine of that name, and of the names that its own table of hosts (`/etc/hosts`) has for it.
    pub fn new(token: Token, host: impl Into<String>) -> Self {
        let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
        Self { token, names: own_names(&host.into(), &hosts), open: &[], partners: None }
    }

    /// Lets in without a token requests to read these paths, if they address this server and come from no other site.
    #[must_use]
    pub fn with_open(self, open: &'static [&'static str]) -> Self {
        Self { open, ..self }
    }

    /// A client that asks for something below this path is a partner: its connections are not counted with those of
    /// others.
    #[must_use]
    pub fn with_partners(self, below: &'static str) -> Self {
        Self { partners: Some(below), ..self }
    }

    /// Whether a path is one of a partner.
    pub fn is_of_partner(&self, path: &str) -> bool {
        self.partners.is_some_and(|below| path.starts_with(below))
    }

    /// Whether a path is one of those that are open.
    pub fn is_open(&self, path: &str) -> bool {
        self.open.contains(&path)
    }

    /// Looks at the headers of a request that came to the address `own`.
    pub fn check(
        &self,
        host: Option<&str>,
        origin: Option<&str>,
        authorization: Option<&str>,
        own: SocketAddr,
    ) -> Result<(), Refused> {
        self.check_site(host, origin, own)?;
        let (kind, secret) = authorization.and_then(|it| it.split_once(' ')).unwrap_or_default();
        if kind.eq_ignore_ascii_case("bearer") && self.token.is(secret.trim()) {
            Ok(())
        } else {
            Err(Refused::Token)
        }
    }

    /// The same but for the token.
    pub fn check_site(
        &self,
        host: Option<&str>,
        origin: Option<&str>,
        own: SocketAddr,
    ) -> Result<(), Refused> {
        let host = host.filter(|host| self.is_own(host, own)).ok_or(Refused::Host)?;
        let is_own_page = |origin: &str| {
            origin.strip_prefix("http://").is_some_and(|site| site.eq_ignore_ascii_case(host))
        };
        if origin.is_none_or(is_own_page) { Ok(()) } else { Err(Refused::Origin) }
    }

    fn is_own(&self, host: &str, own: SocketAddr) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
            _ => (host, Some(80)),
        };
        if port != Some(own.port()) {
            return false;
        }
        let plain = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        // A socket for both versions of IP has addresses of version 4 in those of version 6.
        let own = own.ip().to_canonical();
        match plain.parse::<IpAddr>() {
            Ok(address) => address.to_canonical() == own,
            Err(_) if own.is_loopback() && name.eq_ignore_ascii_case("localhost") => true,
            // Also on a loopback address: Debian has the name of the machine at 127.0.1.1.
            Err(_) => self.names.iter().any(|it| name.eq_ignore_ascii_case(it)),
        }
    }
}

/// A machine's name, that name without its domain, and those that stand beside one of them in a table of hosts.
fn own_names(host: &str, hosts: &str) -> Vec<String> {
    let short = host.split('.').next().unwrap_or(host);
    let is_own = |name: &&str| name.eq_ignore_ascii_case(host) || name.eq_ignore_ascii_case(short);
    let mut names = vec![host, short];
    for line in hosts.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let beside: Vec<&str> = line.split_whitespace().skip(1).collect();
        if beside.iter().any(is_own) {
            // It is that of every machine.
            names.extend(beside.into_iter().filter(|it| !it.starts_with("localhost")));
        }
    }
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(test: &str) -> (Gate, String) {
        let name = format!("rakuda-gate-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let token = Token::in_file(&path).unwrap();
        let secret = format!("Bearer {}", token.secret());
        std::fs::remove_file(&path).unwrap();
        (Gate::new(token, "node7"), secret)
    }

    #[test]
    fn only_this_server_is_meant_and_only_the_token_opens() {
        let (gate, secret) = gate("hosts");
        let own: SocketAddr = "127.0.0.1:4000".parse().unwrap();
        let check = |host, origin, token| gate.check(host, origin, token, own);
        let secret = Some(secret.as_str());
        for host in ["127.0.0.1:4000", "localhost:4000", "LOCALHOST:4000"] {
            assert_eq!(check(Some(host), None, secret), Ok(()), "{host}");
        }
        for host in [
            "evil.example:4000",
            "127.0.0.1",
            "127.0.0.1:4001",
            "localhost.evil.example:4000",
            "node8:4000",
            "node7.evil.example:4000",
            "127.0.0.2:4000",
            "[::1]:4000",
            "",
            "localhost:4000:4000",
            "localhost:x",
        ] {
            assert_eq!(check(Some(host), None, secret), Err(Refused::Host), "{host}");
        }
        assert_eq!(check(None, None, secret), Err(Refused::Host));
        let host = Some("localhost:4000");
        assert_eq!(check(host, Some("http://localhost:4000"), secret), Ok(()));
        for origin in
            ["http://evil.example", "null", "https://localhost:4000", "http://localhost:4001"]
        {
            assert_eq!(check(host, Some(origin), secret), Err(Refused::Origin), "{origin}");
        }
        for token in [None, Some("Bearer"), Some("Bearer x"), Some("Basic x"), Some("")] {
            assert_eq!(check(host, None, token), Err(Refused::Token), "{token:?}");
        }
    }

    #[test]
    fn a_machine_has_the_names_of_its_own_table() {
        let hosts = "127.0.0.1 localhost\n127.0.1.1\tnode7.example node7 # node9\n10.0.0.8 node8\n";
        assert_eq!(own_names("node7", hosts), ["node7", "node7.example"]);
        assert_eq!(own_names("node7.example", ""), ["node7", "node7.example"]);
        assert_eq!(own_names("vm", "127.0.0.1 localhost vm box\n"), ["box", "vm"]);
        assert!(own_names("", "127.0.0.1 localhost\n").is_empty());
    }

    #[test]
    fn sockets_for_both_versions_of_ip_are_addressed_by_either() {
        let (gate, secret) = gate("versions");
        let check = |host: &str, own: &str| {
            gate.check(Some(host), None, Some(&secret), own.parse().unwrap())
        };
        for host in ["127.0.0.1:4000", "localhost:4000", "node7:4000", "[::ffff:127.0.0.1]:4000"] {
            assert_eq!(check(host, "[::ffff:127.0.0.1]:4000"), Ok(()), "{host}");
        }
        assert_eq!(check("node7:4000", "127.0.1.1:4000"), Ok(()), "as Debian has it");
        assert_eq!(check("10.0.0.7:4000", "[::ffff:10.0.0.7]:4000"), Ok(()));
        assert_eq!(check("10.0.0.8:4000", "[::ffff:10.0.0.7]:4000"), Err(Refused::Host));
        assert_eq!(check("localhost:4000", "[::ffff:10.0.0.7]:4000"), Err(Refused::Host));
    }

    #[test]
    fn open_paths_need_no_token_but_the_right_site() {
        let (gate, _) = gate("open");
        let gate = gate.with_open(&["/"]);
        let own: SocketAddr = "127.0.0.1:4000".parse().unwrap();
        assert!(gate.is_open("/") && !gate.is_open("/report") && !gate.is_open(""));
        let host = Some("localhost:4000");
        assert_eq!(gate.check_site(host, None, own), Ok(()));
        assert_eq!(gate.check_site(host, Some("http://evil.example"), own), Err(Refused::Origin));
        assert_eq!(gate.check_site(Some("evil.example:4000"), None, own), Err(Refused::Host));
    }

    #[test]
    fn on_other_addresses_the_machine_has_its_name() {
        let (gate, secret) = gate("origins");
        let check = |host: &str, own: &str| {
            gate.check(Some(host), None, Some(&secret), own.parse().unwrap())
        };
        assert_eq!(check("node7:4000", "10.0.0.7:4000"), Ok(()));
        assert_eq!(check("10.0.0.7:4000", "10.0.0.7:4000"), Ok(()));
        assert_eq!(check("10.0.0.8:4000", "10.0.0.7:4000"), Err(Refused::Host));
        assert_eq!(check("localhost:4000", "10.0.0.7:4000"), Err(Refused::Host));
        assert_eq!(check("[::1]:4000", "[::1]:4000"), Ok(()));
        assert_eq!(check("node7", "10.0.0.7:80"), Ok(()));
    }
}
