//! What an agent needs to find and enter a run: where the hub listens, and the credentials. One
//! line of text, over stdin or in a file of mode 0600, such as `rakuda-join 1 10.0.0.1:41234
//! 9CF0...`. It does not know how that comes to the agent.

use std::io::Read;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::credentials::{Credentials, CredentialsError};
use crate::private_file;

/// First word of the line, and the version of what follows.
const WORDS: [&str; 2] = ["rakuda-join", "1"];
const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
/// Maximum bytes of a line that is read.
const BYTES_MAX: u64 = 128 << 10;

/// Why there is no invitation.
#[derive(Debug, thiserror::Error)]
pub enum InvitationError {
    /// A file, or its credentials.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// It could not be read or written.
    #[error("{what} the invitation {path}: {source}")]
    File {
        /// `read` or `write`.
        what: &'static str,
        /// The file, or `on stdin`.
        path: String,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// Others may read the file.
    #[error("use the invitation {path}: its mode is {mode:o}, so others may read it (chmod 600)")]
    Readable {
        /// The file.
        path: String,
        /// Of the file.
        mode: u32,
    },
    /// It is something else.
    #[error(
        "read the invitation: expected one line `rakuda-join 1 HOST:PORT ...`, as `rakudactl join --print` writes it"
    )]
    Malformed,
}

/// What an agent needs to find and enter a run.
#[derive(Debug, Clone)]
pub struct Invitation {
    /// `HOST:PORT` of the hub.
    pub address: String,
    /// What the agent shows.
    pub credentials: Credentials,
}

impl Invitation {
    /// As a line with its end.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} {} {} ", WORDS[0], WORDS[1], self.address);
        for byte in self.credentials.to_bytes() {
            for half in [byte >> 4, byte & 15] {
                text.push(char::from(DIGITS[usize::from(half)]));
            }
        }
        text.push('\n');
        text
    }

    /// From what [`Invitation::to_text`] gave.
    pub fn from_text(text: &str) -> Result<Self, InvitationError> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let [first, version, address, digits] = words.as_slice() else {
            return Err(InvitationError::Malformed);
        };
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if [*first, *version] != WORDS || port.is_none() {
            return Err(InvitationError::Malformed);
        }
        let bytes = from_digits(digits).ok_or(InvitationError::Malformed)?;
        let credentials = Credentials::from_bytes(&bytes)?;
        Ok(Self { address: (*address).to_owned(), credentials })
    }

    /// Writes a new file that its owner alone may read.
    pub fn write(&self, path: &Path) -> Result<(), InvitationError> {
        private_file::write_new(path, self.to_text().as_bytes()).map_err(|source| {
            InvitationError::File { what: "write", path: path.display().to_string(), source }
        })
    }

    /// Reads a file that nobody else may read.
    pub fn read(path: &Path) -> Result<Self, InvitationError> {
        let name = || path.display().to_string();
        let failed = |source| InvitationError::File { what: "read", path: name(), source };
        let file = std::fs::File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(InvitationError::Readable { path: name(), mode });
        }
        Self::read_from(file, &name())
    }

    /// Reads all of a stream; `name` is what it is called in errors.
    pub fn read_from(stream: impl Read, name: &str) -> Result<Self, InvitationError> {
        let mut text = String::new();
        stream.take(BYTES_MAX).read_to_string(&mut text).map_err(|source| {
            InvitationError::File { what: "read", path: name.to_owned(), source }
        })?;
        Self::from_text(&text)
    }
}

fn from_digits(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::Authority;

    fn invitation() -> Invitation {
        let credentials = Authority::new().unwrap().issue().unwrap();
        Invitation { address: "10.0.0.1:4711".into(), credentials }
    }

    #[test]
    fn it_is_one_line_that_is_read_as_written() {
        let text = invitation().to_text();
        assert_eq!(text.lines().count(), 1);
        let read = Invitation::from_text(&text).unwrap();
        assert_eq!(read.to_text(), text);
        assert_eq!(read.address, "10.0.0.1:4711");
    }

    #[test]
    fn anything_else_is_refused_with_what_was_expected() {
        let text = invitation().to_text();
        let (cut, odd) = (&text[..40], text.trim_end().strip_suffix(|_: char| true).unwrap());
        for wrong in
            ["", "hello", cut, odd, &text.replace(" 1 ", " 2 "), &text.replace("4711 ", "x ")]
        {
            assert!(Invitation::from_text(wrong).is_err(), "{wrong:?}");
        }
        let error = Invitation::from_text("x").unwrap_err().to_string();
        assert!(error.contains("expected one line `rakuda-join 1 HOST:PORT"), "{error}");
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("rakuda-invitation-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let invitation = invitation();
        invitation.write(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Invitation::read(&path).unwrap().to_text(), invitation.to_text());
        assert!(invitation.write(&path).is_err(), "a file that is there is not taken over");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = Invitation::read(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(error, InvitationError::Readable { mode: 0o644, .. }));
    }
}
