//! What lets a process take part in a run: an authority made for it, and the credentials that it issues.
//!
//! Keys are drawn at the start of a run and live in memory, but for what agents are given:
//! [`Credentials`], over stdin or in a file of mode 0600. The certificate of the hub is good for a
//! server only and those of agents for clients only, so no agent can play the hub. Validity in time
//! is not limited: the authority is forgotten with the run.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use rakuda_proto::Text;
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};

/// The name in the hub's certificate; it says nothing of the run.
pub const HUB_NAME: &str = "hub";
/// The name in the certificates of hosts that connect to one another.
pub const PEER_NAME: &str = "peer";
/// Maximum bytes of credentials that are read.
const BYTES_MAX: u64 = 64 << 10;
/// Number of random bytes of a token.
const TOKEN_BYTES: usize = 16;

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// Keys or certificates could not be made.
    #[error("make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// They do not fit together.
    #[error("use a certificate: {0}")]
    Use(String),
    /// They could not be read or written.
    #[error("{what} credentials in {path:?}: {source}")]
    File {
        /// `read` or `write`.
        what: &'static str,
        /// The file.
        path: String,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// Others may read the file.
    #[error(
        "use credentials in {path:?}: its mode is {mode:o}, so others may read them (chmod 600)"
    )]
    Readable {
        /// The file.
        path: String,
        /// Of the file.
        mode: u32,
    },
    /// They are not those of an agent.
    #[error("read credentials: {0}")]
    Malformed(rmp_serde::decode::Error),
}

/// Everything that an agent needs to connect. Its holder counts as that agent.
#[derive(Clone, Serialize, Deserialize)]
pub struct Credentials {
    /// Which launch it belongs to.
    pub token: Text,
    /// The authority's certificate.
    authority: Text,
    /// The agent's own.
    certificate: Text,
    /// Its key (PKCS #8).
    key: Text,
}

/// Never shows the key.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials")
    }
}

/// The authority of one run.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    /// A new one.
    pub fn new() -> Result<Self, CredentialsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key)?.der().clone();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// A certificate of this authority, and its key.
    fn sign(
        &self,
        names: Vec<String>,
        purposes: Vec<ExtendedKeyUsagePurpose>,
    ) -> Result<(CertificateDer<'static>, Vec<u8>), CredentialsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        params.extended_key_usages = purposes;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok((certificate.der().clone(), key.serialize_der()))
    }

    /// For one agent, or for all that one launch starts.
    pub fn issue(&self) -> Result<Credentials, CredentialsError> {
        self.issue_as("agent", vec![ExtendedKeyUsagePurpose::ClientAuth])
    }

    /// For hosts that connect to one another.
    pub fn issue_peer(&self) -> Result<Credentials, CredentialsError> {
        let purposes =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        self.issue_as(PEER_NAME, purposes)
    }

    fn issue_as(
        &self,
        name: &str,
        purposes: Vec<ExtendedKeyUsagePurpose>,
    ) -> Result<Credentials, CredentialsError> {
        let (certificate, key) = self.sign(vec![name.into()], purposes)?;
        let mut token = [0; TOKEN_BYTES];
        let got = rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty());
        assert_eq!(got, Ok(TOKEN_BYTES), "the kernel gives so few random bytes at once");
        Ok(Credentials {
            token: Text(token.to_vec()),
            authority: Text(self.certificate.to_vec()),
            certificate: Text(certificate.to_vec()),
            key: Text(key),
        })
    }

    /// What the hub listens with: TLS 1.3, and nobody without a certificate of this authority.
    pub fn server(&self) -> Result<Arc<ServerConfig>, CredentialsError> {
        let (certificate, key) =
            self.sign(vec![HUB_NAME.into()], vec![ExtendedKeyUsagePurpose::ServerAuth])?;
        server_config(self.certificate.clone(), certificate, key)
    }
}

fn server_config(
    authority: CertificateDer<'static>,
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
) -> Result<Arc<ServerConfig>, CredentialsError> {
    let wrong = |error: &dyn std::fmt::Display| CredentialsError::Use(error.to_string());
    let roots = Arc::new(roots(authority)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
    let verifier = verifier.build().map_err(|error| wrong(&error))?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| wrong(&error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], private_key(key))
        .map_err(|error| wrong(&error))?;
    Ok(Arc::new(config))
}

impl Credentials {
    /// What a holder of a peer's credentials listens with: TLS 1.3, and no side without a certificate of this
    /// authority.
    pub fn server(&self) -> Result<Arc<ServerConfig>, CredentialsError> {
        let certificate = CertificateDer::from(self.certificate.0.clone());
        let authority = CertificateDer::from(self.authority.0.clone());
        server_config(authority, certificate, self.key.0.clone())
    }

    /// What an agent connects with: TLS 1.3, and to nobody but the run's hub.
    pub fn client(&self) -> Result<Arc<ClientConfig>, CredentialsError> {
        let wrong = |error: &dyn std::fmt::Display| CredentialsError::Use(error.to_string());
        let certificate = CertificateDer::from(self.certificate.0.clone());
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| wrong(&error))?
            .with_root_certificates(roots(CertificateDer::from(self.authority.0.clone()))?)
            .with_client_auth_cert(vec![certificate], private_key(self.key.0.clone()))
            .map_err(|error| wrong(&error))?;
        Ok(Arc::new(config))
    }

    /// As bytes, for a file of mode 0600 or another process's stdin.
    pub fn to_bytes(&self) -> Vec<u8> {
        rmp_serde::to_vec(self).expect("plain data into memory always encodes")
    }

    /// From what [`Credentials::to_bytes`] gave.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CredentialsError> {
        rmp_serde::from_slice(bytes).map_err(CredentialsError::Malformed)
    }

    /// Writes a new file that its owner alone may read.
    pub fn write(&self, path: &Path) -> Result<(), CredentialsError> {
        crate::private_file::write_new(path, &self.to_bytes()).map_err(|source| {
            CredentialsError::File { what: "write", path: path.display().to_string(), source }
        })
    }

    /// Reads a file that nobody else may read.
    pub fn read(path: &Path) -> Result<Self, CredentialsError> {
        let name = || path.display().to_string();
        let failed = |source| CredentialsError::File { what: "read", path: name(), source };
        let file = std::fs::File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(CredentialsError::Readable { path: name(), mode });
        }
        let mut bytes = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
        Self::from_bytes(&bytes)
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn roots(authority: CertificateDer<'static>) -> Result<RootCertStore, CredentialsError> {
    let mut roots = RootCertStore::empty();
    roots.add(authority).map_err(|error| CredentialsError::Use(error.to_string()))?;
    Ok(roots)
}

fn private_key(bytes: Vec<u8>) -> PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_as_written_and_only_when_nobody_else_can() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("rakuda-credentials-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let credentials = Authority::new().unwrap().issue().unwrap();
        credentials.write(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Credentials::read(&path).unwrap().to_bytes(), credentials.to_bytes());
        assert!(credentials.write(&path).is_err(), "a file that is there is not taken over");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = Credentials::read(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(error, CredentialsError::Readable { mode: 0o640, .. }));
    }

    #[test]
    fn credentials_show_no_key() {
        let credentials = Authority::new().unwrap().issue().unwrap();
        assert_eq!(format!("{credentials:?}"), "Credentials");
    }
}
