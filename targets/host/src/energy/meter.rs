//! Counters of energy that a system shows.
//!
//! # Source
//! Linux, `Documentation/power/powercap/powercap.rst` (`energy_uj` counts up to `max_energy_range_uj` and begins anew) and
//! `Documentation/ABI/testing/sysfs-class-power` (`power_now` in µW; `current_now` in µA, `voltage_now` in µV).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Something that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meter {
    /// Processor packages, which count joules (RAPL). Includes whatever else runs on them.
    Packages(Vec<PathBuf>),
    /// A battery that is being discharged, which shows its power now and then.
    Battery(PathBuf),
}

/// What a meter showed.
#[derive(Clone, Debug)]
pub struct Reading {
    when: Instant,
    /// Joules of every package, or watts of the battery.
    values: Vec<f64>,
}

/// A number in a file.
fn number(path: &Path) -> Option<f64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The entries of a folder whose name passes, in order.
fn entries(folder: &Path, passes: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| passes(name)).collect();
    names.sort();
    names.into_iter().map(|name| folder.join(name)).collect()
}

impl Meter {
    /// The best meter of this system, whose `/sys` is at `sys`; `None` where there is none, or none that may be read:
    /// RAPL is for root alone on most systems, and absent in virtual machines.
    #[must_use]
    pub fn find(sys: &Path) -> Option<Self> {
        // `intel-rapl:0` is a package, `intel-rapl:0:0` a part of it.
        let package = |name: &str| name.starts_with("intel-rapl:") && name.matches(':').count() == 1;
        let packages = entries(&sys.join("class/powercap"), package);
        if !packages.is_empty() && packages.iter().all(|package| number(&package.join("energy_uj")).is_some()) {
            return Some(Self::Packages(packages));
        }
        let discharging = |supply: &PathBuf| {
            fs::read_to_string(supply.join("status")).is_ok_and(|status| status.trim() == "Discharging")
        };
        let supplies = entries(&sys.join("class/power_supply"), |_| true);
        supplies.into_iter().filter(discharging).find(|supply| watts(supply).is_some()).map(Self::Battery)
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Packages(_) => "RAPL, whole packages",
            Self::Battery(_) => "battery power before and after",
        }
    }

    /// Reads it.
    #[must_use]
    pub fn read(&self) -> Option<Reading> {
        let values = match self {
            Self::Packages(packages) => {
                packages.iter().map(|package| Some(number(&package.join("energy_uj"))? / 1e6)).collect::<Option<_>>()?
            }
            Self::Battery(supply) => vec![watts(supply)?],
        };
        Some(Reading { when: Instant::now(), values })
    }

    /// Joules between two readings. A counter may have begun anew once.
    #[must_use]
    pub fn joules(&self, before: &Reading, after: &Reading) -> Option<f64> {
        match self {
            Self::Packages(packages) => {
                let counters = packages.iter().zip(before.values.iter().zip(&after.values));
                counters
                    .map(|(package, (before, after))| {
                        if after >= before {
                            return Some(after - before);
                        }
                        Some(number(&package.join("max_energy_range_uj"))? / 1e6 - before + after)
                    })
                    .sum()
            }
            Self::Battery(_) => {
                let seconds = after.when.duration_since(before.when).as_secs_f64();
                Some((before.values.first()? + after.values.first()?) / 2.0 * seconds)
            }
        }
    }
}

/// The power that a battery gives. Its sign is the vendor's choice.
fn watts(supply: &Path) -> Option<f64> {
    let power = || Some(number(&supply.join("power_now"))? / 1e6);
    let product = || Some(number(&supply.join("current_now"))? * number(&supply.join("voltage_now"))? / 1e12);
    power().or_else(product).map(f64::abs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sys(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join("class").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn packages_count_and_begin_anew() {
        let sys = sys(&[
            ("powercap/intel-rapl:0/energy_uj", "9000000\n"),
            ("powercap/intel-rapl:0/max_energy_range_uj", "10000000\n"),
            ("powercap/intel-rapl:0:0/energy_uj", "1\n"),
            ("powercap/intel-rapl:1/energy_uj", "500000\n"),
            ("powercap/intel-rapl:1/max_energy_range_uj", "10000000\n"),
        ]);
        let meter = Meter::find(sys.path()).expect("packages");
        let before = meter.read().unwrap();
        fs::write(sys.path().join("class/powercap/intel-rapl:0/energy_uj"), "500000").unwrap();
        fs::write(sys.path().join("class/powercap/intel-rapl:1/energy_uj"), "750000").unwrap();
        let joules = meter.joules(&before, &meter.read().unwrap()).unwrap();
        assert!((joules - 1.75).abs() < 1e-9, "{joules}");
    }

    #[test]
    fn a_battery_counts_while_it_is_discharged() {
        let files = [("power_supply/BAT0/current_now", "-500000"), ("power_supply/BAT0/voltage_now", "4000000")];
        let charging = sys(&[("power_supply/BAT0/status", "Charging"), files[0], files[1]]);
        assert_eq!(Meter::find(charging.path()), None);
        let sys = sys(&[("power_supply/BAT0/status", "Discharging\n"), files[0], files[1]]);
        let meter = Meter::find(sys.path()).expect("a battery");
        let reading = meter.read().unwrap();
        let later = Reading { when: reading.when + std::time::Duration::from_secs(3), ..reading.clone() };
        let joules = meter.joules(&reading, &later).unwrap();
        assert!((joules - 6.0).abs() < 1e-9, "{joules}");
    }

    #[test]
    fn what_is_not_there_is_not_zero() {
        assert_eq!(Meter::find(Path::new("/nowhere")), None);
        let unreadable = sys(&[("powercap/intel-rapl:0/name", "package-0")]);
        assert_eq!(Meter::find(unreadable.path()), None);
        let none = sys(&[("power_supply/AC/status", "Discharging")]);
        assert_eq!(Meter::find(none.path()), None);
    }
}
