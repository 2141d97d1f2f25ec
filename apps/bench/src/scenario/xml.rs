//! The elements of an XML document, with their places.

use super::fault::{Fault, Place};
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

/// The deepest nesting of elements; a scenario has three levels.
const DEEPEST: usize = 8;

/// An element.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) place: Place,
    attributes: Vec<(String, String)>,
    /// The text of its CDATA sections, or of the element without them.
    pub(super) text: String,
    /// The place of the text.
    pub(super) text_place: Place,
    pub(super) children: Vec<Self>,
    has_data: bool,
}

impl Element {
    /// Returns the value of an attribute.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns the value of an attribute that the element has to have.
    pub(super) fn require(&self, name: &str) -> Result<&str, Fault> {
        self.get(name).ok_or_else(|| {
            self.fault(format!("<{}> needs the attribute {name}=\"...\"", self.name))
        })
    }

    /// Rejects attributes that are not in `known`.
    pub(super) fn only(&self, known: &[&[&str]]) -> Result<(), Fault> {
        let unknown = self
            .attributes
            .iter()
            .find(|(name, _)| !known.iter().any(|names| names.contains(&&**name)));
        match unknown {
            None => Ok(()),
            Some((name, _)) => {
                let mut names = known.concat();
                names.sort_unstable();
                Err(self.fault(format!(
                    "the attribute {name} of <{}> is not known; known are {}",
                    self.name,
                    names.join(", ")
                )))
            }
        }
    }

    /// Returns the fault `text` at this element.
    pub(super) fn fault(&self, text: impl Into<String>) -> Fault {
        Fault::new(self.place, text)
    }
}

/// Returns the text of a file: UTF-8, or else ISO 8859-1.
pub(super) fn decode(bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&octet| char::from(octet)).collect(),
    }
}

/// Parses a document and returns its root element.
///
/// # Errors
/// [`Fault`] if it is no well-formed XML.
pub(super) fn parse(text: &str) -> Result<Element, Fault> {
    let mut reader = Reader::from_str(text);
    let mut open: Vec<Element> = Vec::new();
    loop {
        let start = usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX);
        let place = Place::of(text, start);
        let event = reader.read_event().map_err(|error| {
            let at = usize::try_from(reader.error_position()).unwrap_or(start);
            Fault::new(Place::of(text, at), format!("no well-formed XML: {error}"))
        })?;
        let closed = match event {
            Event::Start(tag) => {
                if open.len() >= DEEPEST {
                    return Err(Fault::new(place, "elements are nested too deeply"));
                }
                open.push(element(&tag, place)?);
                None
            }
            Event::Empty(tag) => Some(element(&tag, place)?),
            Event::End(_) => open.pop(),
            Event::CData(data) => {
                if let Some(element) = open.last_mut() {
                    if !std::mem::replace(&mut element.has_data, true) {
                        element.text.clear();
                        element.text_place = Place::of(text, start + "<![CDATA[".len());
                    }
                    element.text.push_str(&data.into_inner());
                }
                None
            }
            Event::Text(data) => {
                push_text(open.last_mut(), &data.into_inner(), place);
                None
            }
            Event::GeneralRef(name) => {
                let written = format!("&{};", name.into_inner());
                let plain = unescape(&written).map_err(|error| {
                    Fault::new(place, format!("{written}: {error}; write & as &amp;"))
                })?;
                push_text(open.last_mut(), &plain, place);
                None
            }
            Event::Eof => {
                let text = match open.pop() {
                    Some(element) => format!("<{}> is not closed", element.name),
                    None => "the file has no <scenario>".to_owned(),
                };
                return Err(Fault::new(place, text));
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => None,
        };
        if let Some(element) = closed {
            match open.last_mut() {
                Some(parent) => parent.children.push(element),
                None => return Ok(element),
            }
        }
    }
}

fn push_text(element: Option<&mut Element>, text: &str, place: Place) {
    let Some(element) = element.filter(|element| !element.has_data) else { return };
    if element.text.is_empty() {
        element.text_place = place;
    }
    element.text.push_str(text);
}

fn element(tag: &BytesStart<'_>, place: Place) -> Result<Element, Fault> {
    let mut attributes = Vec::new();
    let name = tag.name().as_ref().to_owned();
    for attribute in tag.attributes() {
        let attribute = attribute.map_err(|error| {
            Fault::new(
                place,
                format!("<{name}>: {error}; a quotation mark in a value is written as &quot;"),
            )
        })?;
        // An & that begins no reference is kept.
        let value = &attribute.value;
        let value = unescape(value).map_or_else(|_| value.to_string(), |plain| plain.into_owned());
        attributes.push((attribute.key.as_ref().to_owned(), value));
    }
    Ok(Element {
        name,
        place,
        attributes,
        text: String::new(),
        text_place: place,
        children: Vec::new(),
        has_data: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_places_attributes_and_data() {
        let text = "<?xml version=\"1.0\"?>\n<!DOCTYPE s SYSTEM \"sipp.dtd\">\n<s a='1&lt;2'>\n  \
                    <send b=\"<x>&\">\n<![CDATA[\nA <b>\n]]></send><!-- a -- b --><e/></s>";
        let root = parse(text).unwrap();
        assert_eq!((root.get("a"), root.place), (Some("1<2"), Place { line: 3, column: 1 }));
        let send = &root.children[0];
        assert_eq!(send.place, Place { line: 4, column: 3 });
        assert_eq!((send.get("b"), &*send.text), (Some("<x>&"), "\nA <b>\n"));
        assert_eq!(send.text_place, Place { line: 5, column: 10 });
        assert_eq!(root.children[1].name, "e");
    }

    #[test]
    fn broken_documents_are_refused_with_their_place() {
        for (text, line, part) in [
            ("", 1, "no <scenario>"),
            ("<s>\n<a></b></s>", 2, "no well-formed XML"),
            ("<s>\n\n<a>", 3, "is not closed"),
            ("<s>\n<a b=\"\\\"x\\\"\"/></s>", 2, "&quot;"),
            ("<s>\n&unknown;</s>", 2, "&amp;"),
        ] {
            let fault = parse(text).unwrap_err();
            assert_eq!(fault.place.line, line, "{text}: {fault:?}");
            assert!(fault.text.contains(part), "{text}: {fault:?}");
        }
    }

    #[test]
    fn other_texts_than_utf_8_are_iso_8859_1() {
        assert_eq!(decode(b"\xef\xbb\xbfa\xc3\xa4"), "a\u{e4}");
        assert_eq!(decode(b"a\xe4"), "a\u{e4}");
    }
}
