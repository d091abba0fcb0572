import type { FastifyInstance, FastifyRequest } from 'fastify';
import { PlimsollError } from '../../shared/errors.js';
import type { HttpConfig } from './http-config.js';
import type { Serving } from './serving.js';

/** @throws PlimsollError model_not_found. A request may leave the name out: there is one model. */
export function checkModel(config: HttpConfig, name: string | undefined): void {
  if (name === undefined || name === config.modelName || config.modelAliases.includes(name)) return;
  throw new PlimsollError(
    'model_not_found',
    `The model '${name}' does not exist. This server has '${config.modelName}'.`,
    {
      param: 'model',
    },
  );
}

/** GET /v1/models and /v1/models/{id}. Names may have slashes. */
export function addModelRoutes(app: FastifyInstance, serving: Serving, config: HttpConfig): void {
  const created = Math.floor(Date.now() / 1000);
  const describe = () => {
    const { pipeline } = serving.require();
    return {
      id: config.modelName,
      object: 'model',
      created,
      owned_by: 'plimsoll',
      root: config.modelRoot || config.modelName,
      parent: null,
      max_model_len: pipeline.contextTokens,
      meta: {
        n_vocab: pipeline.model.vocabularySize,
        n_ctx_train: pipeline.model.trainContextTokens,
        n_embd: pipeline.model.embeddingLength,
        n_params: pipeline.model.parameterCount,
        size: pipeline.model.sizeBytes,
      },
    };
  };
  app.get('/v1/models', async () => ({ object: 'list', data: [describe()] }));
  app.get('/v1/models/*', async (request: FastifyRequest<{ Params: { '*': string } }>) => {
    const model = describe();
    checkModel(config, request.params['*']);
    return model;
  });
}
