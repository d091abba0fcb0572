import t from 'tap';
import { startServer } from './test-server.js';

interface Document {
  openapi: string;
  security?: unknown;
  paths: Record<string, Record<string, { security?: unknown; requestBody?: { content: Record<string, unknown> } }>>;
}

/** `METHOD /path` of every route, out of Fastify's tree of them, in which a path stands below its prefix. */
function routesOf(tree: string): string[] {
  const prefixes: string[] = [];
  return tree.split('\n').flatMap((line) => {
    const match = /^([│ ]*)[├└]── (\S+)(?: \(([A-Z, ]+)\))?$/.exec(line);
    if (match === null) return [];
    const depth = match[1].length / 4;
    prefixes.length = depth;
    prefixes.push(match[2]);
    const methods = match[3]?.split(', ') ?? [];
    return methods.filter((method) => method !== 'HEAD').map((method) => `${method} ${prefixes.join('')}`);
  });
}

t.test('the document has every route, and none that is not there', async (t) => {
  const { app, url } = await startServer(t);
  const routes = routesOf(app.printRoutes({ commonPrefix: false }));
  t.ok(routes.includes('POST /v1/chat/completions') && routes.includes('GET /healthz'), 'the tree was understood');
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document;
  const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  // Names of models have slashes, so that route ends in a wildcard, which the tree prints without the slash before it.
  t.strictSame(documented.sort(), routes.map((route) => route.replace('/v1/models*', '/v1/models/{id}')).sort());
});

t.test('bodies have their fields', async (t) => {
  const { url } = await startServer(t);
  const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as Document;
  const fields: Record<string, string> = {
    '/v1/chat/completions': 'temperature',
    '/v1/completions': 'prompt',
    '/tokenize': 'with_pieces',
    '/detokenize': 'tokens',
    '/apply-template': 'messages',
  };
  for (const [path, methods] of Object.entries(paths)) {
    if (methods.post) t.match(JSON.stringify(methods.post.requestBody?.content), `"${fields[path]}":`, path);
  }
});

t.test('it says where a key is asked for', async (t) => {
  const { url } = await startServer(t, { apiKeys: ['key'] });
  const response = await fetch(`${url}/openapi.json`, { headers: { 'x-api-key': 'key' } });
  const { security, paths } = (await response.json()) as Document;
  t.same(security, [{ bearer: [] }, { key: [] }]);
  t.same(paths['/readyz'].get.security, []);
  t.notOk('security' in paths['/metrics'].get);
});
