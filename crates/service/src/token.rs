//! The token of a service: drawn once, kept in a file that nobody else can read.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rakuda_link::private_file;

/// Number of random bytes of a token.
const RANDOM_BYTES: usize = 32;
/// Minimum bytes of a token: shorter ones could be guessed.
const LENGTH_MIN: usize = 16;
/// Maximum bytes of a token.
const LENGTH_MAX: usize = 512;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The system refuses.
    #[error("{what} the token file {}: {source}", path.display())]
    File {
        /// `read` or `make`.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// What it says.
        source: std::io::Error,
    },
    /// Others may read it.
    #[error("use the token file {}: {why}", path.display())]
    Unsafe {
        /// Which.
        path: PathBuf,
        /// And what to do.
        why: String,
    },
}

/// What clients must show.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// That of a file, which is made when it is not there.
    pub fn in_file(path: &Path) -> Result<Self, TokenError> {
        match Self::make(path) {
            Err(TokenError::File { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
                Self::read(path)
            }
            result => result,
        }
    }

    /// A new one, which is in no file: the caller passes it on.
    pub fn drawn() -> Self {
        let mut bytes = [0; RANDOM_BYTES];
        let flags = rustix::rand::GetRandomFlags::empty();
        let got = rustix::rand::getrandom(&mut bytes, flags);
        assert_eq!(got, Ok(bytes.len()), "the kernel gives so few random bytes at once");
        Self(bytes.iter().flat_map(|byte| hexadecimal(*byte)).collect())
    }

    fn make(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::File { what: "make", path: path.to_owned(), source };
        let token = Self::drawn();
        private_file::write_new(path, format!("{}\n", token.0).as_bytes()).map_err(failed)?;
        Ok(token)
    }

    /// That of a file that is there.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::File { what: "read", path: path.to_owned(), source };
        let bad = |why: String| TokenError::Unsafe { path: path.to_owned(), why };
        let flags = rustix::fs::OFlags::NOFOLLOW.union(rustix::fs::OFlags::NONBLOCK);
        let file =
            OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
        let file: File = file.map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(bad("it is no ordinary file".to_owned()));
        }
        if found.uid() != rustix::process::getuid().as_raw() {
            return Err(bad("it belongs to someone else".to_owned()));
        }
        if found.mode() & 0o077 != 0 {
            let mode = found.mode() & 0o777;
            return Err(bad(format!("its mode is {mode:o}, so others may read it (chmod 600)")));
        }
        let mut text = String::new();
        file.take(LENGTH_MAX as u64 + 2).read_to_string(&mut text).map_err(failed)?;
        let token = text.trim_end_matches('\n');
        let is_token = (LENGTH_MIN..=LENGTH_MAX).contains(&token.len())
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_token {
            return Err(bad(format!(
                "expected one line of {LENGTH_MIN} to {LENGTH_MAX} printable characters"
            )));
        }
        Ok(Self(token.to_owned()))
    }

    /// What stands behind `Bearer`.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Whether it is that; takes as long whatever differs.
    pub fn is(&self, other: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), other.as_bytes());
        let pairs = own.iter().zip(other.iter().chain(std::iter::repeat(&0)));
        let differs =
            pairs.fold(own.len() ^ other.len(), |sum, (one, two)| sum | usize::from(one ^ two));
        std::hint::black_box(differs) == 0
    }
}

fn hexadecimal(byte: u8) -> [char; 2] {
    [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap_or('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn file(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("rakuda-token-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn a_token_is_made_once_and_is_for_its_owner_alone() {
        let path = file("made");
        let token = Token::in_file(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            (token.secret().len(), Token::in_file(&path).unwrap().secret()),
            (64, token.secret())
        );
        assert!(token.is(token.secret()));
        let others = [&token.secret()[1..], "", &format!("{}0", token.secret())].map(str::to_owned);
        assert!(others.iter().all(|other| !token.is(other)));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let refused = Token::in_file(&path).err().unwrap().to_string();
        assert!(
            refused.ends_with("its mode is 640, so others may read it (chmod 600)"),
            "{refused}"
        );
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_is_no_token_file_is_refused() {
        let path = file("short");
        std::fs::write(&path, "short\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Token::in_file(&path).is_err());
        let link = file("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(
            Token::in_file(&link).is_err(),
            "a link may lead to a file of someone else's choice"
        );
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(&link).unwrap();
    }
}
