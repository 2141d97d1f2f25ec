use super::{BencodeError, Fault, MAX_DEPTH, MAX_LENGTH, Value, write_dictionary};
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};

/// A document as a tree, with keys in any order.
#[derive(Clone, Debug)]
enum Tree {
    Integer(i64),
    String(Vec<u8>),
    List(Vec<Self>),
    Dictionary(Vec<(Vec<u8>, Self)>),
}

fn tree() -> impl Strategy<Value = Tree> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..12);
    let leaf = prop_oneof![any::<i64>().prop_map(Tree::Integer), bytes().prop_map(Tree::String)];
    leaf.prop_recursive(MAX_DEPTH as u32 - 1, 60, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Tree::List),
            prop::collection::vec((bytes(), inner), 0..4).prop_map(Tree::Dictionary),
        ]
    })
}

fn write(tree: &Tree, out: &mut Vec<u8>) {
    match tree {
        Tree::Integer(integer) => super::write_integer(out, *integer),
        Tree::String(string) => super::write_string(out, string),
        Tree::List(values) => {
            out.push(b'l');
            values.iter().for_each(|value| write(value, out));
            out.push(b'e');
        }
        Tree::Dictionary(entries) => {
            out.push(b'd');
            for (key, value) in entries {
                super::write_string(out, key);
                write(value, out);
            }
            out.push(b'e');
        }
    }
}

fn assert_equal(value: Value<'_>, tree: &Tree) {
    match tree {
        Tree::Integer(integer) => assert_eq!(value.as_integer(), Some(*integer)),
        Tree::String(string) => assert_eq!(value.as_string(), Some(&string[..])),
        Tree::List(trees) => {
            let values: Vec<_> = value.as_list().expect("a list").values().collect();
            assert_eq!(values.len(), trees.len());
            values.into_iter().zip(trees).for_each(|(value, tree)| assert_equal(value, tree));
        }
        Tree::Dictionary(trees) => {
            let dictionary = value.as_dictionary().expect("a dictionary");
            let entries: Vec<_> = dictionary.entries().collect();
            assert_eq!(entries.len(), trees.len());
            for (&(key, value), (expected, tree)) in entries.iter().zip(trees) {
                assert_eq!(key, expected);
                assert_equal(value, tree);
                assert!(dictionary.get(key).is_some());
            }
        }
    }
}

fn fault(bytes: &[u8]) -> (usize, Fault) {
    let BencodeError { offset, fault } = Value::parse(bytes).expect_err("a fault");
    (offset, fault)
}

proptest! {
    #[test]
    fn a_written_document_is_read_again(tree in tree()) {
        let mut bytes = Vec::new();
        write(&tree, &mut bytes);
        let value = Value::parse(&bytes).expect("the written document is valid");
        assert_equal(value, &tree);
        let mut again = Vec::new();
        value.write(&mut again);
        assert_eq!(again, bytes);
    }

    #[test]
    fn a_truncated_document_is_rejected_and_no_byte_behind_it_is_accepted(
        tree in tree(), cut in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut bytes = Vec::new();
        write(&tree, &mut bytes);
        let cut = cut.index(bytes.len());
        let (offset, _) = fault(&bytes[..cut]);
        assert!(offset <= cut);
        bytes.push(byte);
        assert_eq!(fault(&bytes), (bytes.len() - 1, Fault::Trailing));
    }

    #[test]
    fn accepted_bytes_are_written_the_same(
        bytes in prop::collection::vec(
            prop_oneof![
                Just(b'd'), Just(b'l'), Just(b'e'), Just(b'i'), Just(b'-'), Just(b':'),
                b'0'..=b'3', any::<u8>(),
            ],
            0..24,
        ),
    ) {
        if let Ok(value) = Value::parse(&bytes) {
            let mut again = Vec::new();
            value.write(&mut again);
            assert_eq!(again, bytes);
        }
    }
}

#[test]
fn faults_have_their_offset() {
    assert_eq!(fault(b""), (0, Fault::Truncated));
    assert_eq!(fault(b"e"), (0, Fault::Byte(b'e')));
    assert_eq!(fault(b"d3:abc"), (6, Fault::Truncated));
    assert_eq!(fault(b"d3:abce"), (6, Fault::NoValue));
    assert_eq!(fault(b"di1e3:abce"), (1, Fault::Key));
    assert_eq!(fault(b"dle3:abce"), (1, Fault::Key));
    assert_eq!(fault(b"l?e"), (1, Fault::Byte(b'?')));
    assert_eq!(fault(b"i1ei2e"), (3, Fault::Trailing));
    for integer in ["ie", "i-e", "i-0e", "i01e", "i+1e", "i 1e", "i9223372036854775808e"] {
        assert_eq!(fault(integer.as_bytes()), (0, Fault::Integer), "{integer}");
    }
    assert_eq!(fault(b"i12"), (0, Fault::Truncated));
    assert_eq!(fault(b"i1111111111111111111111e"), (0, Fault::Integer));
    for string in ["01:a", "2:a", "1x:a", "99999999999:a", "65536:a"] {
        assert_eq!(fault(string.as_bytes()), (0, Fault::Length), "{string}");
    }
    assert_eq!(fault(b"12"), (0, Fault::Truncated));
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |depth| [vec![b'l'; depth], vec![b'e'; depth]].concat();
    assert!(Value::parse(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(fault(&nested(MAX_DEPTH + 1)), (MAX_DEPTH, Fault::TooDeep));
    assert_eq!(fault(&vec![b'l'; MAX_LENGTH]), (MAX_DEPTH, Fault::TooDeep));
    let long = [b"65529:".to_vec(), vec![0; 65_529]].concat();
    assert_eq!(long.len(), MAX_LENGTH);
    assert!(Value::parse(&long).is_ok());
    let longer = [b"65530:".to_vec(), vec![0; 65_530]].concat();
    assert_eq!(fault(&longer), (MAX_LENGTH + 1, Fault::TooLong));
}

#[test]
fn the_last_of_equal_keys_counts() {
    let value = Value::parse(b"d1:bi1e1:ai2e1:bi3ee").expect("a document");
    let dictionary = value.as_dictionary().expect("a dictionary");
    assert_eq!(dictionary.get(b"b"), Some(Value::Integer(3)));
    assert_eq!(dictionary.get(b"c"), None);
}

#[test]
fn writers_write_nested_values() {
    let mut out = Vec::new();
    write_dictionary(&mut out, |entries| {
        entries.integer("a", -7);
        entries.dictionary("b", |inner| inner.string("c", "d"));
        entries.list("e", |list| {
            list.integer(0);
            list.string([0xff]);
            list.list(|_| {});
            list.dictionary(|_| {});
        });
    });
    assert_eq!(out, b"d1:ai-7e1:bd1:c1:de1:eli0e1:\xffledeee");
}
