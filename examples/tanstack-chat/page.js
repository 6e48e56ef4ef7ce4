import { ChatClient, fetchServerSentEvents } from "@tanstack/ai-client";
import { element, onPrompt, optionsOf, showAsks, showFile, showStatus } from "../dom.js";

// The address has the thread, so that a reopened page continues it.
const threadId = location.hash.slice(1) || crypto.randomUUID();
location.hash = threadId;

const client = new ChatClient({
  connection: fetchServerSentEvents(`/ag-ui/${AGENT}`),
  threadId,
  persistence: true,
  onMessagesChange: paint,
  onStatusChange: showStatus,
  onCustomEvent: (name, value) => {
    if (name === "sandbox.file") showFile(value);
  },
  onResumeStateChange: () => ask(),
});
client.attach();
onPrompt((text) => void client.sendMessage(text));

function paint(messages) {
  document.querySelector("#messages").replaceChildren(
    ...messages.map(({ role, parts }) => {
      const block = element("div", "", role);
      for (const part of parts) {
        if (part.type === "text") block.append(element("div", part.content));
        if (part.type === "thinking") block.append(element("div", part.content, "thinking"));
        if (part.type === "tool-call") block.append(element("div", `${part.name} ${part.arguments}`, "tool"));
        if (part.type === "tool-result") block.append(element("div", String(part.content), "tool"));
      }
      return block;
    }),
  );
  ask();
}

function ask() {
  const open = client.getInterrupts().filter(({ canResolve, status }) => canResolve && status === "pending");
  showAsks(
    open.map((interrupt) => ({
      id: interrupt.id,
      message: interrupt.message,
      options: optionsOf(interrupt),
    })),
    (id, payload) =>
      client
        .getInterrupts()
        .find((interrupt) => interrupt.id === id)
        ?.resolveInterrupt(payload),
  );
}
