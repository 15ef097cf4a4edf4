// TanStack AI's client, whose connection breaks off three times in every answer. Prints what its messages say at the end.
import { ChatClient, fetchServerSentEvents } from "@tanstack/ai-client";

const { AGENT_URL, TOKEN } = process.env;
const places = [], errors = [];
let interrupts = [], cuts = 3;

async function fetchClient(input, init) {
  places.push(new Headers(init.headers).get("Last-Event-ID"));
  const answer = await fetch(input, init);
  if (cuts-- <= 0 || !answer.ok) return answer;
  const reader = answer.body.getReader();
  let left = 400;
  const body = new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (!done && value.length < left) {
        left -= value.length;
        controller.enqueue(value);
        return;
      }
      if (!done) controller.enqueue(value.slice(0, left));
      controller.close();
      await reader.cancel();
    },
  });
  return new Response(body, { status: answer.status, headers: answer.headers });
}

const client = new ChatClient({
  connection: fetchServerSentEvents(AGENT_URL, { headers: { Authorization: `Bearer ${TOKEN}` }, fetchClient }),
  threadId: crypto.randomUUID(),
  onError: (error) => errors.push(error.message),
  onChunk: (chunk) => { interrupts = chunk.outcome?.interrupts ?? interrupts; },
});

await client.sendMessage("please greet the team, all of them, and tell me when you did it, in a few words");
if (interrupts.length > 0) {
  const resume = interrupts.map((each) => ({ interruptId: each.id, status: "resolved", payload: { approved: true } }));
  cuts = 3;
  await client.resumeInterrupts(resume);
}
const said = client.getMessages().map(({ role, parts }) => [role, parts.map((part) => part.content ?? part.name)]);
process.stdout.write(JSON.stringify({ said, places, errors }));
process.exit(0);
