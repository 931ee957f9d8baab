//! Keys and signatures.

use std::fs;

use tempfile::TempDir;

use crate::pocket::{image, line, names, pocket};

/// A key that openssl made for this test alone, and its public half.
const OPENSSL: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAX6NRvaXk6Zm3VPjhLOuiPhh1B6UEmUwkAlgwcvS2Qh
-----END PRIVATE KEY-----
";
const OPENSSL_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAOZZvEefMJ8SMpORp/HoYCA4/9Em8dlsWwjuFBEuqPqI=
-----END PUBLIC KEY-----
";
const OPENSSL_HEX: &str = "39966f11e7cc27c48ca4e469fc7a18080e3ff449bc765b16c23b85044baa3ea2";

#[test]
fn a_new_key_is_its_owners_alone_and_never_overwrites() {
    let folder = TempDir::new().unwrap();
    let key = folder.path().join("key.pem");
    let public = pocket(line("keygen {}", &[&key])).ok();
    assert_eq!(public.trim().len(), 64, "{public}");
    let pem = fs::read_to_string(&key).unwrap();
    assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----"), "PKCS#8");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let sentence = pocket(line("keygen {}", &[&key])).error(1);
    assert!(sentence.contains("key.pem"), "{sentence}");
    assert_eq!(fs::read_to_string(&key).unwrap(), pem, "the key that was there stays");
    let other = pocket(line("keygen {}", &[&folder.path().join("other.pem")])).ok();
    assert_ne!(public, other);
}

#[test]
fn a_signed_image_is_verified_with_the_key_and_with_no_other() {
    let folder = TempDir::new().unwrap();
    let [key, public, signed, bare] =
        ["key.pem", "public.pem", "signed.pocket", "bare.pocket"].map(|name| folder.path().join(name));
    fs::write(&key, OPENSSL).unwrap();
    fs::write(&public, OPENSSL_PUBLIC).unwrap();
    fs::copy(image(), &bare).unwrap();
    let said = pocket(line("sign {} --key {} -o {}", &[&bare, &key, &signed])).ok();
    assert!(said.contains(OPENSSL_HEX), "{said}");
    assert_eq!(fs::read(&bare).unwrap(), fs::read(image()).unwrap());

    for trusted in [OPENSSL_HEX.to_owned(), public.display().to_string(), key.display().to_string()] {
        let said = pocket(line(&format!("verify {{}} --public-key {trusted}"), &[&signed])).ok();
        assert!(said.contains("signed by the key"), "{said}");
    }
    let said = pocket(line("verify {}", &[&signed])).ok();
    assert!(said.contains(OPENSSL_HEX), "{said}");
    assert_eq!(pocket(line("inspect {} --json", &[&signed])).json()["signer"], OPENSSL_HEX);
    let stranger = "00".repeat(32);
    let sentence = pocket(line(&format!("verify {{}} --public-key {stranger}"), &[&signed])).error(1);
    assert!(sentence.contains("another key") && sentence.contains(OPENSSL_HEX), "{sentence}");
    let sentence = pocket(line("verify {} --public-key {}", &[&bare, &public])).error(1);
    assert!(sentence.contains("not signed"), "{sentence}");

    // In place, by somebody else: the new signature takes the old one's place.
    let other = folder.path().join("other.pem");
    let other_hex = pocket(line("keygen {}", &[&other])).ok();
    pocket(line("sign {} --key {}", &[&signed, &other])).ok();
    pocket(line(&format!("verify {{}} --public-key {}", other_hex.trim()), &[&signed])).ok();
    pocket(line("verify {} --public-key {}", &[&signed, &public])).error(1);

    // It still answers.
    pocket(line("run {} --raw -p x -n 1 --greedy", &[&signed])).ok();
    assert_eq!(names(folder.path()).len(), 5, "nothing else was left");
}

#[test]
fn what_cannot_be_signed_stays_as_it_was() {
    let folder = TempDir::new().unwrap();
    let [key, damaged] = ["key.pem", "damaged.pocket"].map(|name| folder.path().join(name));
    fs::write(&key, OPENSSL).unwrap();
    let mut bytes = fs::read(image()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&damaged, &bytes).unwrap();
    let sentence = pocket(line("sign {} --key {}", &[&damaged, &key])).error(1);
    assert!(sentence.contains("damaged.pocket") && sentence.contains("weights"), "{sentence}");
    assert_eq!(fs::read(&damaged).unwrap(), bytes);
    for no_key in ["", "-----BEGIN PRIVATE KEY-----\nnothing\n-----END PRIVATE KEY-----\n", OPENSSL_PUBLIC] {
        fs::write(&key, no_key).unwrap();
        let sentence = pocket(line("sign {} --key {}", &[&image(), &key])).error(1);
        assert!(sentence.contains("key.pem"), "{sentence}");
        assert!(!sentence.contains("MC4C"), "nothing of a key is shown");
    }
    let missing = folder.path().join("none.pem");
    assert!(pocket(line("sign {} --key {}", &[&image(), &missing])).error(1).contains("none.pem"));
    assert_eq!(names(folder.path()).len(), 2);
}

#[cfg(unix)]
#[test]
fn a_key_that_others_may_read_is_warned_about() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let [key, signed] = ["key.pem", "signed.pocket"].map(|name| folder.path().join(name));
    fs::write(&key, OPENSSL).unwrap();
    for (mode, warned) in [(0o644, true), (0o640, true), (0o600, false), (0o400, false)] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        let done = pocket(line("sign {} --key {} -o {}", &[&image(), &key, &signed]));
        assert_eq!(done.err.contains("chmod 600"), warned, "{mode:o}: {}", done.err);
        done.ok();
    }
}
