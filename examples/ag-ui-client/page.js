import { HttpAgent } from "@ag-ui/client";
import { element, onPrompt, optionsOf, showAsks, showFile, showStatus } from "../dom.js";

const agent = new HttpAgent({ url: `${location.origin}/ag-ui/${AGENT}`, threadId: crypto.randomUUID() });

agent.subscribe({
  onMessagesChanged: ({ messages }) => paint(messages),
  onCustomEvent: ({ event }) => {
    if (event.name === "sandbox.file") showFile(event.value);
  },
});
onPrompt((text) => {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
  paint(agent.messages);
  void run();
});

async function run(input) {
  showStatus("running");
  try {
    await agent.runAgent(input);
    showStatus("ready");
  } catch (error) {
    showStatus(`failed: ${error.message}`);
  }
  showAsks(
    agent.pendingInterrupts.map((interrupt) => ({
      id: interrupt.id,
      message: interrupt.message,
      options: optionsOf(interrupt),
    })),
    (interruptId, payload) => void run({ resume: [{ interruptId, status: "resolved", payload }] }),
  );
}

function paint(messages) {
  document.querySelector("#messages").replaceChildren(
    ...messages.map(({ role, content, toolCalls = [] }) => {
      const block = element("div", "", role === "reasoning" ? "thinking" : role);
      if (typeof content === "string") block.append(element("div", content, role === "tool" ? "tool" : ""));
      for (const call of toolCalls)
        block.append(element("div", `${call.function.name} ${call.function.arguments}`, "tool"));
      return block;
    }),
  );
}
