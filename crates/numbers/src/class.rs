//! Classes of destinations.

use crate::number::{Dialing, Form};
use crate::prefix::PrefixTable;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// A class of destinations, by its place in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

impl ClassId {
    /// Emergency numbers. No right is needed.
    pub const EMERGENCY: Self = Self(0);
    /// Users, groups and services of the office.
    pub const INTERNAL: Self = Self(1);
    /// Numbers of the own country.
    pub const NATIONAL: Self = Self(2);
    /// Numbers of other countries.
    pub const INTERNATIONAL: Self = Self(3);
    /// Numbers of a provider that are no E.164 numbers.
    pub const SPECIAL: Self = Self(4);
    /// Numbers with a price of their own.
    pub const PREMIUM: Self = Self(5);
    /// Satellite and other networks with country codes of their own.
    pub const SATELLITE: Self = Self(6);
}

/// The names of the classes that each plan has, by their [`ClassId`].
pub(crate) const BUILT_IN: [&str; 7] =
    ["emergency", "internal", "national", "international", "special", "premium", "satellite"];

/// The maximum number of classes: a set of them has 64 bits.
pub(crate) const MAX_CLASSES: usize = 64;

/// Codes of ITU-T E.164 with prices above those of countries: International Premium Rate and
/// Shared Cost, Universal Personal Telecommunication, Inmarsat, satellite and global networks.
const GLOBAL: [(&str, ClassId); 7] = [
    ("+979", ClassId::PREMIUM),
    ("+808", ClassId::PREMIUM),
    ("+878", ClassId::PREMIUM),
    ("+870", ClassId::SATELLITE),
    ("+881", ClassId::SATELLITE),
    ("+882", ClassId::SATELLITE),
    ("+883", ClassId::SATELLITE),
];

/// A set of classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassSet(u64);

impl ClassSet {
    /// Adds a class.
    pub(crate) fn insert(&mut self, class: ClassId) {
        self.0 |= 1 << class.0;
    }

    /// Returns true if `class` is in the set.
    pub(crate) fn contains(self, class: ClassId) -> bool {
        self.0 & (1 << class.0) != 0
    }
}

/// The classes of a plan, and the beginnings of their numbers.
#[derive(Clone, Debug)]
pub(crate) struct Classes {
    names: Vec<String>,
    prefixes: PrefixTable<ClassId>,
}

impl Classes {
    /// The built-in classes, for an office in a country.
    pub(crate) fn new(country: &str) -> Self {
        let mut prefixes = PrefixTable::default();
        prefixes.insert("+".to_owned(), false, ClassId::INTERNATIONAL);
        for (prefix, class) in GLOBAL {
            prefixes.insert(prefix.to_owned(), false, class);
        }
        if !country.is_empty() {
            prefixes.insert(["+", country].concat(), false, ClassId::NATIONAL);
        }
        Self { names: BUILT_IN.map(ToOwned::to_owned).to_vec(), prefixes }
    }

    /// The class of a name, which is added if it is new. `None` if there are too many.
    pub(crate) fn add(&mut self, name: &str) -> Option<ClassId> {
        if let Some(class) = self.named(name) {
            return Some(class);
        }
        let index = u8::try_from(self.names.len()).ok().filter(|&it| usize::from(it) < MAX_CLASSES);
        index.map(|index| {
            self.names.push(name.to_owned());
            ClassId(index)
        })
    }

    /// Makes `prefix` a beginning of the numbers of `class`. Returns its former class.
    pub(crate) fn set(&mut self, prefix: String, class: ClassId) -> Option<ClassId> {
        self.prefixes.insert(prefix, false, class)
    }

    /// The class of a name.
    pub(crate) fn named(&self, name: &str) -> Option<ClassId> {
        let index = self.names.iter().position(|known| known == name)?;
        u8::try_from(index).ok().map(ClassId)
    }

    /// The name of a class.
    pub(crate) fn name(&self, class: ClassId) -> &str {
        self.names.get(usize::from(class.0)).map_or("unknown", String::as_str)
    }

    /// The names of all classes.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The class of a call through a trunk: `number` as it was found, `sent` as the provider gets
    /// it. A number that only rules know has the class of its form for the provider.
    pub(crate) fn of(&self, dialing: &Dialing, number: &str, sent: &str) -> ClassId {
        if number.starts_with('+') {
            return self.of_number(number);
        }
        let provider = Dialing { outside: String::new(), local: Vec::new(), ..dialing.clone() };
        match provider.form(sent) {
            Form::Global(number) => self.of_number(&number),
            Form::Bare(_) | Form::Invalid(_) => {
                let sent = self.prefixes.longest(sent).filter(|_| !sent.starts_with('+'));
                sent.or_else(|| self.prefixes.longest(number))
                    .map_or(ClassId::SPECIAL, |(_, class)| *class)
            }
        }
    }

    fn of_number(&self, number: &str) -> ClassId {
        self.prefixes.longest(number).map_or(ClassId::SPECIAL, |(_, class)| *class)
    }
}
