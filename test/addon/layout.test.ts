import t from 'tap';
import * as batch from '../../src/shared/batch-wire.js';
import { loadNativeAddon } from '../../src/shared/native-addon.js';
import * as sampling from '../../src/shared/sampling-wire.js';
import * as stepOutput from '../../src/shared/step-output.js';

/** Constants only: functions and types of the wire files have no mirror. */
function constants(module: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(module).filter(([, value]) => typeof value !== 'function'));
}

t.test('the addon has the same wire formats as TypeScript, no constant more or less', async (t) => {
  const expected = { ...constants(batch), ...constants(sampling), ...constants(stepOutput) };
  t.same(loadNativeAddon().addon.layout(), expected);
});
