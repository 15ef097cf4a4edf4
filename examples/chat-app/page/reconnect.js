// A fetch for the AG-UI client that lives through broken connections.
//
// Each event of a run has an `id:`. When the stream ends before the run did, the same request goes out again with the last
// one as Last-Event-ID, and what comes after it is added to the stream: the client sees one answer, nothing missed or twice.

const LAST = /"type":"(RUN_FINISHED|RUN_ERROR)"/;
const WAITS = [250, 500, 1000, 2000, 4000, 8000, 15000];

/** As fetch. `onBreak(true)` is called when the connection is gone, `onBreak(false)` when it is there again. */
export const steadyFetch = (onBreak) => async (url, request) => {
  const answer = await fetch(url, request);
  if (!answer.ok || !answer.body) return answer;
  const frames = steadyFrames(url, request, answer, onBreak);
  const bytes = new TextEncoder();
  const body = new ReadableStream({
    async pull(controller) {
      const { done, value } = await frames.next();
      if (done) controller.close();
      else controller.enqueue(bytes.encode(`${value}\n\n`));
    },
    cancel: () => { frames.return(); },
  });
  return new Response(body, { status: answer.status, headers: answer.headers });
};

async function* steadyFrames(url, request, answer, onBreak) {
  let place = "";
  for (;;) {
    try {
      for await (const frame of framesOf(answer.body)) {
        place = /^id: ?(.*)$/m.exec(frame)?.[1] ?? place;
        yield frame;
        if (LAST.test(frame)) return;
      }
    } catch (error) {
      if (request.signal?.aborted) throw error;
    }
    onBreak(true);
    answer = await again(url, request, place);
    onBreak(false);
  }
}

/** Ask for the rest, until there is an answer. */
async function again(url, request, place) {
  const headers = { ...request.headers, ...(place && { "Last-Event-ID": place }) };
  for (const wait of WAITS) {
    await new Promise((done) => setTimeout(done, wait));
    const answer = await fetch(url, { ...request, headers }).catch(() => null);
    if (request.signal?.aborted) break;
    if (answer?.ok && answer.body) return answer;
    if (answer && answer.status < 500) throw new Error((await answer.json()).message);
  }
  throw new Error("The connection is gone. Load the page again to go on.");
}

/** Whole frames of an event stream; what was cut off at its end is left out. */
async function* framesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const frames = (text + value).split("\n\n");
      text = frames.pop();
      yield* frames;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
