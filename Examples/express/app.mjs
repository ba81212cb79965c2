// Rate limits, idempotent orders and a debounced job with Express, in one file.
//
//     countdownd --socket ./countdownd.sock --state-directory ./state
//     COUNTDOWND_SOCKET=./countdownd.sock node app.mjs
import express from 'express';
import { Client } from 'countdownd';
import { debounced, idempotent, throttled } from 'countdownd/express';

/** Makes the app; `reindex` is called once nobody has saved a document for 2 s. */
export function make(client, { reindex, signal }) {
  const app = express();
  const orders = [];
  app.use(express.json());

  app.get('/search', throttled({ burst: 10, rate: '10/1m', client }), (_, response) => {
    response.json({ found: [] });
  });

  app.post('/orders', idempotent({ required: true, client }), (request, response) => {
    orders.push({ id: orders.length + 1, item: request.body.item });
    response.status(201).json(orders.at(-1));
  });

  app.post('/documents/:name', async (request, response, next) => {
    const { name } = request.params;
    const save = debounced(`reindex:${name}`, { quiet: '2s', maxWait: '30s', client });
    await save(name).then(() => response.status(202).json({}), next);
  });

  // It connects again by itself, and gets what has fired meanwhile.
  (async () => {
    for await (const event of client.watch('debounce:reindex:*', { signal })) {
      if (event.name === 'fired') reindex(...JSON.parse(event.view.payload.toString()));
    }
  })();
  return app;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  make(new Client(), { reindex: (name) => console.log('reindexed', name) }).listen(8080);
}
