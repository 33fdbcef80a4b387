//! The cluster's key: 32 secret bytes and the cluster's id, in a file that only its owner can read. Whoever holds it
//! is a member of the cluster; nothing here ever prints the secret or writes it to a file others can read.

use rustix::fs::{Mode, OFlags};
use std::{
    fmt, fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};
use zeroize::Zeroizing;

/// Bytes of the secret: what the Noise protocol takes as a pre-shared key.
pub(crate) const SECRET_LENGTH: usize = 32;

/// The id takes two lines with its secret; anything longer is not a key file.
const FILE_LENGTH_MAX: u64 = 4096;

/// A cluster's secret and id.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterKey {
    cluster_id: String,
    secret: Zeroizing<[u8; SECRET_LENGTH]>,
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterKey")
            .field("cluster_id", &self.cluster_id)
            .finish_non_exhaustive()
    }
}

/// Why a key could not be made, read or written.
#[derive(Debug)]
pub enum KeyError {
    /// The system gave no random bytes.
    NoRandomness(getrandom::Error),
    /// The file could not be opened, read or written.
    File {
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others than its owner may read or write the file.
    Exposed {
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file belongs to another user.
    NotOwned {
        path: PathBuf,
        owner: u32,
        /// Who we are.
        user: u32,
    },
    /// The text is not a key: what is wrong with it.
    Malformed {
        /// What is wrong.
        problem: &'static str,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRandomness(error) => {
                write!(f, "the system gave no random bytes for a cluster key: {error}")
            }
            Self::File { path, source } => {
                write!(
                    f,
                    "cluster key {}: {source}; is the cluster up, and is this its directory?",
                    path.display()
                )
            }
            Self::Exposed { path, mode } => write!(
                f,
                "cluster key {} can be read by others (mode {mode:04o}): take the cluster down and up again for a new \
                 key, or run `chmod 600` on it if nobody else can have seen it",
                path.display()
            ),
            Self::NotOwned { path, owner, user } => write!(
                f,
                "cluster key {} belongs to user {owner}, this program runs as user {user}: run it as the user who made \
                 the cluster",
                path.display()
            ),
            Self::Malformed { problem } => write!(
                f,
                "this is not a cluster key ({problem}): take the cluster down and up again for a new one"
            ),
        }
    }
}

impl std::error::Error for KeyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl ClusterKey {
    /// A new random secret with a new random id.
    pub fn generate() -> Result<Self, KeyError> {
        let mut id = [0; 8];
        getrandom::fill(&mut id).map_err(KeyError::NoRandomness)?;
        Self::generate_for(&hex(&id))
    }

    /// A new random secret for a cluster that has its id already.
    pub fn generate_for(cluster_id: &str) -> Result<Self, KeyError> {
        let mut secret = Zeroizing::new([0; SECRET_LENGTH]);
        getrandom::fill(secret.as_mut_slice()).map_err(KeyError::NoRandomness)?;
        cluster_id_check(cluster_id)?;
        Ok(Self {
            cluster_id: cluster_id.to_owned(),
            secret,
        })
    }

    /// From an id and the secret in hexadecimal, as a daemon receives them from the one that starts it.
    pub fn from_hex(cluster_id: &str, secret: &str) -> Result<Self, KeyError> {
        cluster_id_check(cluster_id)?;
        let digits = secret.as_bytes();
        if digits.len() != 2 * SECRET_LENGTH {
            return Err(KeyError::Malformed {
                problem: "the secret must be 64 hexadecimal digits",
            });
        }
        let mut bytes = Zeroizing::new([0; SECRET_LENGTH]);
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let (Some(high), Some(low)) = (hex_digit(pair[0]), hex_digit(pair[1])) else {
                return Err(KeyError::Malformed {
                    problem: "the secret must be 64 hexadecimal digits",
                });
            };
            *byte = high << 4 | low;
        }
        Ok(Self {
            cluster_id: cluster_id.to_owned(),
            secret: bytes,
        })
    }

    /// The secret in hexadecimal, to hand to a daemon over a channel nobody else reads.
    pub fn secret_hex(&self) -> Zeroizing<String> {
        Zeroizing::new(hex(self.secret.as_slice()))
    }

    /// The cluster's id; not secret.
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    pub(crate) fn secret(&self) -> &[u8; SECRET_LENGTH] {
        &self.secret
    }

    /// Writes a new key file of mode 0600; fails when the file exists, because a key in use is never overwritten.
    pub fn store(&self, path: &Path) -> Result<(), KeyError> {
        let failed = |source| KeyError::File {
            path: path.to_owned(),
            source,
        };
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor =
            rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(|error| failed(error.into()))?;
        let mut file = fs::File::from(descriptor);
        let text = Zeroizing::new(format!("cluster {}\nsecret {}\n", self.cluster_id, *self.secret_hex()));
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        if let Err(source) = written {
            // Half a key must not stay behind; when it cannot be removed either, the first error is the one to tell.
            let _ = fs::remove_file(path);
            return Err(failed(source));
        }
        Ok(())
    }

    /// Reads a key file, and refuses one that others could have read or that somebody else put there.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::File {
            path: path.to_owned(),
            source,
        };
        // NONBLOCK: a FIFO in the place of the file must not hold us.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let descriptor = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let file = fs::File::from(descriptor);
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(KeyError::Malformed {
                problem: "it is not a regular file",
            });
        }
        let user = rustix::process::geteuid().as_raw();
        if metadata.uid() != user {
            return Err(KeyError::NotOwned {
                path: path.to_owned(),
                owner: metadata.uid(),
                user,
            });
        }
        let mode = metadata.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed {
                path: path.to_owned(),
                mode,
            });
        }
        let mut text = Zeroizing::new(String::new());
        file.take(FILE_LENGTH_MAX).read_to_string(&mut text).map_err(failed)?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, KeyError> {
        let mut lines = text.lines();
        let cluster_id = lines.next().and_then(|line| line.strip_prefix("cluster "));
        let secret = lines.next().and_then(|line| line.strip_prefix("secret "));
        match (cluster_id, secret, lines.next()) {
            (Some(cluster_id), Some(secret), None) => Self::from_hex(cluster_id, secret),
            _ => Err(KeyError::Malformed {
                problem: "it must have the two lines `cluster …` and `secret …`",
            }),
        }
    }
}

fn cluster_id_check(cluster_id: &str) -> Result<(), KeyError> {
    if pcm_proto::ids::name_check(cluster_id).is_err() {
        return Err(KeyError::Malformed {
            problem: "the cluster id must be a short name of letters and digits",
        });
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(HEX_DIGITS[usize::from(digit)]))
        .collect()
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_stored_key_comes_back_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let key = ClusterKey::generate().unwrap();
        key.store(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(ClusterKey::load(&path).unwrap() == key);
        assert!(ClusterKey::from_hex(key.cluster_id(), &key.secret_hex()).unwrap() == key);
        assert!(ClusterKey::generate().unwrap() != key);
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        ClusterKey::generate().unwrap().store(&path).unwrap();
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = ClusterKey::load(&path).unwrap_err();
            assert!(matches!(&error, KeyError::Exposed { mode: found, .. } if *found == mode));
            assert!(error.to_string().contains("chmod 600"));
        }
    }

    #[test]
    fn a_key_is_never_overwritten_nor_followed_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let key = ClusterKey::generate().unwrap();
        key.store(&path).unwrap();
        assert!(matches!(
            ClusterKey::generate().unwrap().store(&path),
            Err(KeyError::File { .. })
        ));
        assert!(ClusterKey::load(&path).unwrap() == key);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(ClusterKey::load(&link).is_err());
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        for text in [
            "",
            "cluster a\n",
            "cluster a\nsecret 00\n",
            "cluster ../a\nsecret 00\n",
            "secret x\ncluster y\n",
        ] {
            assert!(
                matches!(ClusterKey::parse(text), Err(KeyError::Malformed { .. })),
                "{text:?}"
            );
        }
        let long = format!("cluster a\nsecret {}\nmore\n", "0".repeat(64));
        assert!(ClusterKey::parse(&long).is_err());
        assert!(ClusterKey::parse(&format!("cluster a\nsecret {}g\n", "0".repeat(63))).is_err());
    }

    #[test]
    fn a_key_never_prints_its_secret() {
        let key = ClusterKey::generate().unwrap();
        assert!(!format!("{key:?}").contains(&*key.secret_hex()));
    }
}
