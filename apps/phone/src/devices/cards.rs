//! Sound cards, through the system's sound library.

use super::drift::{Drift, stretch};
use super::listed::Listed;
use codec::Resampler;
use cpal::traits::{DeviceTrait, HostTrait, StreamTrait};
use cpal::{Device, FromSample, SampleFormat, SizedSample, StreamConfig, SupportedStreamConfig};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Capacity of the queue between card and phone in milliseconds: further samples are lost.
const ROOM: usize = 400;
/// Target level of the queue in milliseconds: cards transfer pieces of 10 to 40 ms.
const LEVEL: usize = 60;
/// Time limit for opening a stream.
const PATIENCE: Duration = Duration::from_secs(3);

/// The state of a stream.
#[derive(Debug, Default)]
struct Health {
    is_broken: AtomicBool,
}

/// An open microphone or speaker.
pub(super) struct Card<End> {
    _stream: cpal::Stream,
    end: End,
    resampler: Resampler,
    drift: Drift,
    health: Arc<Health>,
    /// Resampled samples that are not handed on yet.
    rest: Vec<i16>,
}

pub(super) type Microphone = Card<Consumer<i16>>;
pub(super) type Speaker = Card<Producer<i16>>;

impl<End> Card<End> {
    /// Returns true if the stream has to be opened again.
    pub(super) fn is_broken(&self) -> bool {
        self.health.is_broken.load(Ordering::Relaxed)
    }
}

/// Lists the sound devices of this system.
///
/// # Errors
/// A description of why they cannot be listed.
pub(crate) fn list() -> Result<Vec<Listed>, String> {
    let host = cpal::default_host();
    let defaults = [host.default_input_device(), host.default_output_device()];
    let defaults: Vec<String> = defaults.iter().flatten().filter_map(name_of).collect();
    let devices = host.devices().map_err(|error| format!("no sound devices: {error}"))?;
    let listed = devices.filter_map(|device| {
        let name = name_of(&device)?;
        let described = device.description().map(|text| text.name().to_owned());
        Some(Listed {
            description: described.unwrap_or_default(),
            hears: device.supports_input(),
            plays: device.supports_output(),
            is_default: defaults.contains(&name),
            name,
        })
    });
    Ok(listed.collect())
}

/// The name of a device without the name of the host library.
fn name_of(device: &Device) -> Option<String> {
    let id = device.id().ok()?.to_string();
    Some(id.split_once(':').map_or(id.clone(), |(_, name)| name.to_owned()))
}

fn find(wanted: Option<&str>, default: Option<Device>, kind: &str) -> Result<Device, String> {
    let Some(wanted) = wanted else { return default.ok_or(format!("there is no {kind}")) };
    let host = cpal::default_host();
    let id = format!("{}:{wanted}", host.id()).parse();
    let named = id.ok().and_then(|id| host.device_by_id(&id));
    named.ok_or(format!("there is no {kind} {wanted}; `barebell-phone devices` lists them"))
}

/// The stream configuration: one channel if the device supports it.
fn config(supported: &SupportedStreamConfig) -> StreamConfig {
    supported.config()
}

impl Microphone {
    /// Opens the microphone with this name, or the default one, for samples at `rate`.
    ///
    /// # Errors
    /// A description of the failure.
    pub(super) fn open(name: Option<&str>, rate: u32) -> Result<Self, String> {
        let device = find(name, cpal::default_host().default_input_device(), "microphone")?;
        let wrong = |error: cpal::Error| format!("the microphone cannot be opened: {error}");
        let supported = device.default_input_config().map_err(wrong)?;
        let own = supported.sample_rate();
        let (producer, consumer) = RingBuffer::new(ROOM * own as usize / 1000);
        let health = Arc::new(Health::default());
        let told = Arc::clone(&health);
        let config = config(&supported);
        let stream = match supported.sample_format() {
            SampleFormat::F32 => hear::<f32>(&device, config, producer, told),
            SampleFormat::I32 => hear::<i32>(&device, config, producer, told),
            SampleFormat::U8 => hear::<u8>(&device, config, producer, told),
            _ => hear::<i16>(&device, config, producer, told),
        };
        let stream = stream.map_err(wrong)?;
        stream.play().map_err(wrong)?;
        let (resampler, drift) = (Resampler::new(own, rate), Drift::new(own, LEVEL));
        Ok(Self { _stream: stream, end: consumer, resampler, drift, health, rest: Vec::new() })
    }

    /// Appends the next 20 ms, `count` samples, to `out`. Missing samples are silence.
    pub(super) fn capture(&mut self, count: usize, out: &mut Vec<i16>) {
        let end = out.len() + count;
        while self.rest.len() < count {
            let waiting = self.end.slots();
            // Samples are taken in pieces: a card that delivers 40 ms at a time does not run dry.
            let piece = waiting.min(self.piece());
            if piece == 0 {
                break;
            }
            let Ok(chunk) = self.end.read_chunk(piece) else { break };
            let samples: Vec<i16> = chunk.into_iter().collect();
            let mut stretched = Vec::with_capacity(samples.len() + 1);
            stretch(&samples, -self.drift.correction(waiting), &mut stretched);
            self.resampler.resample(&stretched, &mut self.rest);
        }
        let taken = self.rest.len().min(count);
        out.extend(self.rest.drain(..taken));
        if out.len() < end {
            out.resize(end, 0);
        }
    }

    fn piece(&self) -> usize {
        self.end.buffer().capacity() * 10 / ROOM
    }
}

impl Speaker {
    /// Opens the speaker with this name, or the default one, for samples at `rate`.
    ///
    /// # Errors
    /// A description of the failure.
    pub(super) fn open(name: Option<&str>, rate: u32) -> Result<Self, String> {
        let device = find(name, cpal::default_host().default_output_device(), "speaker")?;
        let wrong = |error: cpal::Error| format!("the speaker cannot be opened: {error}");
        let supported = device.default_output_config().map_err(wrong)?;
        let own = supported.sample_rate();
        let (mut producer, consumer) = RingBuffer::new(ROOM * own as usize / 1000);
        let silence = LEVEL * own as usize / 1000;
        (0..silence).for_each(|_| {
            let _ = producer.push(0);
        });
        let health = Arc::new(Health::default());
        let told = Arc::clone(&health);
        let config = config(&supported);
        let stream = match supported.sample_format() {
            SampleFormat::F32 => speak::<f32>(&device, config, consumer, told),
            SampleFormat::I32 => speak::<i32>(&device, config, consumer, told),
            SampleFormat::U8 => speak::<u8>(&device, config, consumer, told),
            _ => speak::<i16>(&device, config, consumer, told),
        };
        let stream = stream.map_err(wrong)?;
        stream.play().map_err(wrong)?;
        let (resampler, drift) = (Resampler::new(rate, own), Drift::new(own, LEVEL));
        Ok(Self { _stream: stream, end: producer, resampler, drift, health, rest: Vec::new() })
    }

    /// Plays the next 20 ms.
    pub(super) fn play(&mut self, samples: &[i16]) {
        let waiting = self.end.buffer().capacity() - self.end.slots();
        self.rest.clear();
        let mut resampled = Vec::with_capacity(samples.len() * 6);
        self.resampler.resample(samples, &mut resampled);
        stretch(&resampled, -self.drift.correction(waiting), &mut self.rest);
        let room = self.rest.len().min(self.end.slots());
        if let Ok(chunk) = self.end.write_chunk_uninit(room) {
            chunk.fill_from_iter(self.rest.drain(..room));
        }
    }
}

/// Opens the input stream: its callback mixes the channels down to one and queues them.
fn hear<T: SizedSample>(
    device: &Device,
    config: StreamConfig,
    mut room: Producer<i16>,
    health: Arc<Health>,
) -> Result<cpal::Stream, cpal::Error>
where
    i16: FromSample<T>,
{
    let channels = usize::from(config.channels).max(1);
    let data = move |samples: &[T], _: &cpal::InputCallbackInfo| {
        for frame in samples.chunks_exact(channels) {
            let sum: i32 = frame.iter().map(|&sample| i32::from(i16::from_sample_(sample))).sum();
            // The queue is full only if it was not read for long.
            let _ = room.push((sum / channels as i32) as i16);
        }
    };
    device.build_input_stream(config, data, move |error| note(&health, &error), Some(PATIENCE))
}

/// Opens the output stream: its callback plays the one channel on all channels.
fn speak<T: SizedSample + FromSample<i16>>(
    device: &Device,
    config: StreamConfig,
    mut waiting: Consumer<i16>,
    health: Arc<Health>,
) -> Result<cpal::Stream, cpal::Error> {
    let channels = usize::from(config.channels).max(1);
    let data = move |samples: &mut [T], _: &cpal::OutputCallbackInfo| {
        for frame in samples.chunks_exact_mut(channels) {
            frame.fill(T::from_sample_(waiting.pop().unwrap_or(0)));
        }
    };
    device.build_output_stream(config, data, move |error| note(&health, &error), Some(PATIENCE))
}

/// Handles a stream error. The library recovers from an underrun by itself.
fn note(health: &Health, error: &cpal::Error) {
    use cpal::ErrorKind::{DeviceNotAvailable, HostUnavailable, StreamInvalidated};
    if matches!(error.kind(), DeviceNotAvailable | HostUnavailable | StreamInvalidated) {
        health.is_broken.store(true, Ordering::Relaxed);
    }
}
