/** The page's own code, compiled with this project in strict mode; its open values are parameters. */
import type Anthropic from "@anthropic-ai/sdk";

type Session = Pick<Anthropic.Beta.Sessions.BetaManagedAgentsSession, "id">;
type DocumentBlock = Anthropic.Beta.Sessions.BetaManagedAgentsDocumentBlock;

/** "Send User Input" */
export async function sendUserInput(client: Anthropic, session: Session): Promise<void> {
  await client.beta.sessions.events.send(session.id, {
    events: [
      {
        type: "user.message",
        content: [{ type: "text", text: "Inspect the test failure and propose a fix." }],
      },
    ],
  });
}

/** "List Events" */
export async function listEvents(
  client: Anthropic,
  session: Session,
  console: Pick<Console, "log">,
): Promise<void> {
  for await (const event of client.beta.sessions.events.list(session.id, {
    order: "asc",
    limit: 100,
    types: ["agent.message", "session.status_idle"],
  })) {
    console.log(event.type);
  }
}

/** "Stream Events"; `opened` is where the page's reader sends its message. */
export async function streamEvents(
  client: Anthropic,
  session: Session,
  { console, opened }: { console: Pick<Console, "log">; opened: () => Promise<unknown> },
): Promise<void> {
  const stream = await client.beta.sessions.events.stream(session.id);
  await opened();
  for await (const event of stream) {
    if (event.type === "agent.message") {
      console.log(event.content);
    }
    if (event.type === "session.status_idle") {
      break;
    }
  }
}

/** "File-Backed Input"; no version of the SDK has a type for the citations of the page's own document. */
export async function sendFile(
  client: Anthropic,
  session: Session,
  uploaded: { readonly id: string },
): Promise<void> {
  await client.beta.sessions.events.send(session.id, {
    events: [
      {
        type: "user.message",
        content: [
          { type: "text", text: "Summarize this document." },
          {
            type: "document",
            source: { type: "file", file_id: uploaded.id },
            title: "input",
            citations: { enabled: true },
          } as DocumentBlock,
        ],
      },
    ],
  });
}
