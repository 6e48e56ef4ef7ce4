/** What a person wrote of a user message's part; "" for what the client put there itself. */
export function toUserText(part: string): string {
  const text = unquote(unwrap(part.replace(REMINDER, ""))).trim();
  const isClients = CONTEXT.test(text) || NUDGE.test(text);
  return isClients && !SCRIPT.test(text) ? "" : text;
}

/** The `#script` of a text, from its mark on; undefined where it has none. */
export function findScript(text: string): string | undefined {
  const mark = SCRIPT.exec(text);
  return mark === null ? undefined : text.slice(mark.index).replace(/<\/user_query>\s*$/, "");
}

/** Said by a client in the user's name when a turn was stopped. */
export function saysInterrupted(part: string): boolean {
  return /^\s*(?:\[Request interrupted by user|<turn_aborted>)/.test(part);
}

/** Said by a client in the user's name when it kept the beginning of an answer that broke off. */
export function saysCutOff(part: string): boolean {
  return /^\s*Your response above was cut off/.test(part);
}

/** How clients ask for more in the user's name. */
const NUDGE =
  /^(?:Tool loaded\.|Your response above was |\[Your previous response had no |System: Please continue|Continue if you have next steps|The previous request exceeded )/;
const SCRIPT = /^[ \t]*#script(?![\w-])/m;
const REMINDER = /<system-reminder>[\s\S]*?<\/system-reminder>/g;
/** A part from its first to its last character within tags. */
const CONTEXT = /^<[a-z][\w-]*[\s>][\s\S]*<\/[\w-]+>$/i;

function unwrap(text: string): string {
  return /<user_query>\s*([\s\S]*?)\s*<\/user_query>/.exec(text)?.[1] ?? text;
}

/** `opencode run` puts a prompt of several words into quotes, and a backslash before each quote in it. */
function unquote(text: string): string {
  const quoted = /^\s*"(\s*#script[\s\S]*)"\s*$/.exec(text)?.[1];
  return quoted === undefined ? text : quoted.replaceAll('\\"', '"');
}
