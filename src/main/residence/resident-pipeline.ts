import type { ModelInfo } from '../../shared/engine.js';
import type { PlimsollError } from '../../shared/errors.js';
import type { DeviceGauge, SchedulerGauge } from '../../shared/gauges-layout.js';
import type { LoadLineView } from '../load-line-view.js';
import type { WorkerPipeline } from '../pipeline.js';
import type { GenerationListener, GenerationRequest, Pipeline, Residence } from '../pipeline-types.js';
import type { ModelResidence } from './model-residence.js';

/** A request that came while the model was not there. */
interface LateRequest {
  listener: GenerationListener;
  /** In the pipeline; null: it waits for one. */
  id: number | null;
  /** Ends the wait. */
  leaving: AbortController;
}

/** What is known of the model while it is not there. */
interface Known {
  model: ModelInfo;
  contextTokens: number;
  activeMax: number;
  runningCap: number;
  nextRequestId: number;
  loadLine: LoadLineView;
}

/**
 * The pipeline of a model that may be unloaded. While it is loaded, requests go straight through. One that comes otherwise starts the load
 * and waits; its id is negative, so it is nobody else's.
 */
export class ResidentPipeline implements Pipeline {
  /** Of the first load: the same file has the same tokens each time. */
  readonly pieces;
  private known: Known;
  private readonly late = new Map<number, LateRequest>();
  private lastLateId = 0;
  private waitingCount = 0;

  constructor(
    private readonly home: ModelResidence,
    first: WorkerPipeline,
  ) {
    this.pieces = first.pieces;
    this.known = knownOf(first);
  }

  /** Remembers what is asked while no pipeline is there. One that came anew may have planned less: others may have taken memory. */
  remember(pipeline: WorkerPipeline): void {
    this.known = knownOf(pipeline);
  }

  get model(): ModelInfo {
    return this.known.model;
  }

  get contextTokens(): number {
    return this.known.contextTokens;
  }

  get runningCap(): number {
    return this.known.runningCap;
  }

  /** Ids that a next pipeline may give away. */
  get nextRequestId(): number {
    return this.known.nextRequestId;
  }

  get residence(): Residence {
    if (this.home.model !== null) return this.home.model.pipeline.residence;
    return this.home.isLoading ? 'loading' : 'unloaded';
  }

  get activeCount(): number {
    return (this.home.model?.pipeline.activeCount ?? 0) + this.waitingCount;
  }

  get activeMax(): number {
    return this.known.activeMax;
  }

  submit(request: GenerationRequest, listener: GenerationListener): number {
    const { model } = this.home;
    if (model === null) return this.submitLate(request, listener);
    const id = model.pipeline.submit(request, listener);
    this.home.touched();
    return id;
  }

  cancel(id: number): void {
    const late = this.late.get(id);
    if (late?.id === null) {
      this.late.delete(id);
      late.leaving.abort();
      late.listener.finished('cancelled');
    } else {
      this.home.model?.pipeline.cancel(late?.id ?? id);
    }
  }

  deviceGauges(): Readonly<Record<DeviceGauge, number>> {
    return this.home.carry.deviceGauges(this.home.model?.pipeline.deviceGauges() ?? null);
  }

  schedulerGauges(): Readonly<Record<SchedulerGauge, number>> {
    return this.home.carry.schedulerGauges(this.home.model?.pipeline.schedulerGauges() ?? null);
  }

  loadLine(): LoadLineView {
    const { model } = this.home;
    return model === null ? emptied(this.known.loadLine, this.residence) : model.pipeline.loadLine();
  }

  onFatal(handler: (error: PlimsollError) => void): void {
    this.home.onFatal(handler);
  }

  close(timeoutMs: number): Promise<void> {
    return this.home.close(timeoutMs);
  }

  private submitLate(request: GenerationRequest, listener: GenerationListener): number {
    const id = --this.lastLateId;
    const late: LateRequest = { listener, id: null, leaving: new AbortController() };
    this.late.set(id, late);
    void this.whenLoaded(id, late, request);
    return id;
  }

  private async whenLoaded(id: number, late: LateRequest, request: GenerationRequest): Promise<void> {
    const release = this.home.hold();
    this.waitingCount++;
    try {
      const { pipeline } = await this.home.loaded(late.leaving.signal);
      // Cancelled in the very turn in which the model came.
      if (this.late.has(id)) late.id = pipeline.submit(request, this.forgetting(id, late.listener));
    } catch (error) {
      if (this.late.delete(id)) late.listener.failed(error as PlimsollError);
    } finally {
      this.waitingCount--;
      release();
    }
  }

  private forgetting(id: number, listener: GenerationListener): GenerationListener {
    return {
      started: (cachedTokens) => listener.started?.(cachedTokens),
      progress: (computedTokens) => listener.progress?.(computedTokens),
      token: (sample) => listener.token(sample),
      finished: (reason) => {
        this.late.delete(id);
        listener.finished(reason);
      },
      failed: (error) => {
        this.late.delete(id);
        listener.failed(error);
      },
    };
  }
}

function knownOf(pipeline: WorkerPipeline): Known {
  return {
    model: pipeline.model,
    contextTokens: pipeline.contextTokens,
    activeMax: pipeline.activeMax,
    runningCap: pipeline.ready.plan.runningCap,
    nextRequestId: pipeline.nextRequestId,
    loadLine: pipeline.loadLine(),
  };
}

/** The plan as it was, and nobody who owns a byte. */
function emptied(view: LoadLineView, residence: Residence): LoadLineView {
  const owners = Object.fromEntries(Object.keys(view.ledger.owners).map((owner) => [owner, 0]));
  return {
    ...view,
    residence,
    ladder: view.ladder.map((rung) => ({ ...rung, stands: false })),
    ledger: { owners, total_bytes: 0, unexplained_bytes: 0, alarm: false },
  };
}
