// A user interface in forty lines: every kind of content, tools as cards that change, plans, live views.
// npm run build && node examples/ui-loop/main.mjs "list the files here and say what they are"
import { extractBrowserUseUrls, isBrowserUseTool, Sluice } from "sluice";

const ui = createTerminalUi();
const tools = new Map();

const sluice = new Sluice().withAgent({ type: process.env.AGENT ?? "scripted" });
sluice.on("content", ({ update }) => {
  switch (update.sessionUpdate) {
    case "agent_message_chunk":
      return update.content.type === "text"
        ? ui.say(update.content.text)
        : ui.note(`[${update.content.mimeType}]`);
    case "agent_thought_chunk":
      return update.content.type === "text" ? ui.think(update.content.text) : undefined;
    case "user_message_chunk":
      return; // an echo of our own message
    case "plan":
      return ui.plan(update.entries);
    case "tool_call":
    case "tool_call_update": {
      // An update may come before its call, so both create and change the card.
      const card = { ...tools.get(update.toolCallId), ...update };
      tools.set(update.toolCallId, card);
      ui.tool(
        card.toolCallId,
        `${isBrowserUseTool(card.title) ? "browser" : card.kind} ${card.title} ${card.status}`,
      );
      if (isBrowserUseTool(card.title)) for (const url of urlsOf(card.content)) ui.note(url);
      return;
    }
    default:
      return ui.note(`unknown: ${JSON.stringify(update)}`);
  }
});
sluice.on("lifecycle", ({ reason }) => ui.note(reason));

const { exitCode } = await sluice.run({ prompt: process.argv[2] ?? "Say hello" });
await sluice.kill();
process.exitCode = exitCode;

function urlsOf(content = []) {
  return content.flatMap((part) => {
    if (part.type !== "content" || part.content.type !== "text") return [];
    const { liveUrl, screenshotUrl } = extractBrowserUseUrls(part.content.text);
    return [liveUrl, screenshotUrl].filter(Boolean);
  });
}

function createTerminalUi() {
  const shown = new Map();
  let column = 0;
  const line = (text) => {
    process.stdout.write(`${column > 0 ? "\n" : ""}${text}\n`);
    column = 0;
  };
  const write = (text) => {
    process.stdout.write(text);
    column = text.endsWith("\n") ? 0 : 1;
  };
  return {
    say: write,
    think: (text) => line(`  (${text})`),
    note: (text) => line(`  · ${text}`),
    plan: (entries) => line(entries.map(({ status, content }) => `  [${status}] ${content}`).join("\n")),
    tool: (id, text) => {
      if (shown.get(id) !== text) line(`  > ${text}`);
      shown.set(id, text);
    },
  };
}
