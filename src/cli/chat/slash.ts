import type { SessionInfo } from "../../contract/index.ts";
import { toStatusWord } from "../commands/sessions.ts";
import { toUsageWords } from "../commands/usage.ts";
import type { Controls } from "../source/port.ts";
import { toOneLine } from "../transcript/pen.ts";

/** The parts of a chat that its commands use. */
export interface ChatActions {
  readonly controls: Controls;
  readonly session: string | undefined;
  say(text: string): void;
  leave(): void;
  /** Continues with another session; undefined is a new one. */
  enter(session: string | undefined): Promise<void>;
}

interface SlashCommand {
  readonly words: string;
  readonly help: string;
  readonly run: (chat: ChatActions, rest: string) => Promise<void> | void;
}

const SHOWN_SESSIONS = 10;

const COMMANDS: Readonly<Record<string, SlashCommand>> = {
  "/help": { words: "", help: "list these commands", run: (chat) => chat.say(toHelp()) },
  "/new": { words: "", help: "begin a new session", run: (chat) => chat.enter(undefined) },
  "/sessions": { words: "", help: "list the last sessions", run: listSessions },
  "/switch": { words: "ID", help: "continue another session", run: switchTo },
  "/status": { words: "", help: "the session, its agent and its tokens", run: showStatus },
  "/quit": { words: "", help: "leave; so does Ctrl-D", run: (chat) => chat.leave() },
};

export const SLASH_WORDS: readonly string[] = Object.keys(COMMANDS);

/** Runs a line that is a command. Returns false for a message; a path with a second slash, such as /home/me, begins one. */
export async function runSlash(chat: ChatActions, text: string): Promise<boolean> {
  const [, word = "", rest = ""] = /^(\/[a-z]+)(?:\s+([\s\S]*))?$/.exec(text.trim()) ?? [];
  if (word === "") return false;
  const command = Object.hasOwn(COMMANDS, word) ? COMMANDS[word] : undefined;
  if (command) await command.run(chat, rest.trim());
  else chat.say(`There is no command ${word}. /help lists the commands.`);
  return true;
}

function toHelp(): string {
  const rows = Object.entries(COMMANDS).map(
    ([word, { words, help }]) => `  ${`${word} ${words}`.padEnd(14)} ${help}`,
  );
  const keys = [
    "  Enter          send; Alt-Enter or a \\ at the end of the line begins another line",
    "  Ctrl-C         interrupt the agent; with a text, discard the text",
    "  Up, Down       earlier messages",
    "  Ctrl-D         leave; the session stays",
  ];
  return [...rows, ...keys].join("\n");
}

async function listSessions(chat: ChatActions): Promise<void> {
  let count = 0;
  for await (const session of chat.controls.sessions()) {
    chat.say(toRow(session, session.sessionId === chat.session));
    count += 1;
    if (count === SHOWN_SESSIONS) break;
  }
  if (count === 0) chat.say("There is no session yet.");
}

function toRow(session: SessionInfo, isCurrent: boolean): string {
  const { sessionId, agent, title } = session;
  const [id, name] = [toOneLine(sessionId, 128), toOneLine(title ?? "", 60)];
  return `${isCurrent ? "›" : " "} ${id.padEnd(24)}  ${toOneLine(agent, 40).padEnd(8)}  ${toStatusWord(session).padEnd(8)}  ${name}`.trimEnd();
}

async function switchTo(chat: ChatActions, session: string): Promise<void> {
  if (session === "") return chat.say("Name a session: /switch ID. /sessions lists them.");
  await chat.enter(session);
}

async function showStatus(chat: ChatActions): Promise<void> {
  if (chat.session === undefined) return chat.say("There is no session yet; the first message begins one.");
  const info = await chat.controls.info(chat.session);
  const rows = {
    session: info.sessionId,
    agent: [info.agent, info.model, info.variant].filter(Boolean).join(" · "),
    status: `${info.status}${info.paused ? ", paused" : ""}`,
    permissions: info.permissionMode,
    sandbox: info.sandbox,
    folder: info.directory ?? "of the sandbox",
    where: chat.controls.where,
    usage: toUsageWords(info.usage),
  };
  for (const [name, value] of Object.entries(rows)) chat.say(`  ${name.padEnd(12)} ${toOneLine(value, 200)}`);
}
