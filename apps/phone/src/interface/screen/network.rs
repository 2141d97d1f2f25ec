//! The network view: addresses of this machine and of its calls.

use super::model::Model;
use super::rows::row;
use super::theme::{Theme, Tone};
use super::ui::Ui;
use media::Mapping;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, ui: &Ui, model: &Model<'_>, theme: Theme) {
    let mut lines: Vec<Line<'_>> = Vec::new();
    let mut group = |label: &str, texts: Vec<String>| {
        let texts = if texts.is_empty() { vec!["none".to_owned()] } else { texts };
        for (number, text) in texts.into_iter().enumerate() {
            let label = if number == 0 { label } else { "" };
            lines.push(row(label, text, Tone::Plain, theme));
        }
    };
    let network = &ui.network;
    let locals = model.locals.iter();
    let sip = locals.flat_map(|at| ["UDP", "TCP"].map(|transport| format!("{at} {transport}")));
    group("SIP", sip.collect());
    let seen = model.seen.iter();
    group("SIP outside", seen.map(|(account, at)| format!("{at}, by {account}")).collect());
    let media = model.calls.iter().filter_map(|call| {
        let local = call.local?;
        let remote = call.remote.map_or_else(String::new, |remote| format!(" to {remote}"));
        Some(format!("{local}{remote}, call {}", call.number))
    });
    group("RTP", media.collect());
    if let Some((local, mapped, mapping)) = model.outside {
        let kind = match mapping {
            Mapping::Unknown => "kind of NAT not known",
            Mapping::Direct => "no NAT",
            Mapping::EndpointIndependent => "the same for all",
            Mapping::EndpointDependent => "another one for each: symmetric NAT",
        };
        let seen = mapped.map_or("no answer".to_owned(), |mapped| mapped.to_string());
        group("NAT", vec![format!("{local} is seen as {seen}, {kind}")]);
    }
    let gateways = network.gateways.iter();
    group("Gateway", gateways.map(|(at, interface)| format!("{at} ({interface})")).collect());
    group("DNS", network.name_servers.clone());
    let interfaces = network.interfaces.iter().flat_map(|(name, addresses)| {
        addresses.iter().map(move |(address, length)| format!("{name} {address}/{length}"))
    });
    group("Addresses", interfaces.collect());
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}
