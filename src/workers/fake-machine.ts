import type { ModelInfo, Readings } from '../shared/engine.js';
import { FakeDelay } from './fake-delay.js';
import { FAKE_CONTROL, type FakeEngineOptions } from './fake-options.js';
import { FAKE_CHAT_TEMPLATE, FAKE_VOCABULARY_SIZE } from './fake-vocabulary.js';

/** Memory of the fake device and of the machine around it. Chosen: no test runs out of it without saying so. */
const DEVICE_TOTAL_BYTES = 16 * 2 ** 30;
const SYSTEM_TOTAL_BYTES = 32 * 2 ** 30;

/** The fake model's description: shapes of a small transformer, so that formulas over them give sensible numbers. */
export function fakeModelInfo(options: FakeEngineOptions): ModelInfo {
  return {
    handle: 1,
    description: 'fake model',
    architecture: 'fake',
    sizeBytes: options.modelBytes,
    parameterCount: options.modelBytes / 2,
    trainContextTokens: options.trainContextTokens,
    layerCount: 4,
    embeddingLength: 256,
    queryHeadCount: 4,
    kvHeadCount: 2,
    vocabularySize: FAKE_VOCABULARY_SIZE,
    slidingWindowTokens: 0,
    isRecurrent: !options.canTrim,
    isHybrid: false,
    hasEncoder: false,
    hasDecoder: true,
    canTrim: options.canTrim,
    chatTemplate: FAKE_CHAT_TEMPLATE,
    metadata: { 'general.architecture': 'fake', 'general.name': 'fake' },
  };
}

/** What a test steers live, and nothing else: the overlap worker has no engine to ask. */
export function fakeHostReader(control: SharedArrayBuffer | null): () => Partial<Readings> {
  const live = new FakeDelay(control);
  return () => {
    const systemAvailableMib = live.readOverride(FAKE_CONTROL.systemAvailableMib);
    return systemAvailableMib === 0 ? {} : { systemAvailableBytes: systemAvailableMib * 2 ** 20 };
  };
}

/** Readings with `usedBytes` on the device: computed, then what the options script for call `call`, then what the test steers live. */
export function fakeReadings(options: FakeEngineOptions, live: FakeDelay, usedBytes: number, call: number): Readings {
  const scripted = options.readings[Math.min(Math.max(call, 1), options.readings.length) - 1];
  const readings: Readings = {
    deviceTotalBytes: DEVICE_TOTAL_BYTES,
    deviceFreeBytes: DEVICE_TOTAL_BYTES - usedBytes,
    systemTotalBytes: SYSTEM_TOTAL_BYTES,
    systemAvailableBytes: SYSTEM_TOTAL_BYTES - usedBytes,
    cgroupLimitBytes: 0,
    cgroupUsedBytes: 0,
    cgroupReclaimableBytes: 0,
    processFootprintBytes: usedBytes,
    pressureLevel: 0,
    ...scripted,
  };
  const deviceFreeMib = live.readOverride(FAKE_CONTROL.deviceFreeMib);
  const systemAvailableMib = live.readOverride(FAKE_CONTROL.systemAvailableMib);
  if (deviceFreeMib !== 0) readings.deviceFreeBytes = deviceFreeMib * 2 ** 20;
  if (systemAvailableMib !== 0) readings.systemAvailableBytes = systemAvailableMib * 2 ** 20;
  return readings;
}
