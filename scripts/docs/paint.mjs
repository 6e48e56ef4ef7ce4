const COMMENT = { ts: /\/\/[^\n]*|\/\*[\s\S]*?\*\//y, sh: /(?<=^|\s)#[^\n]*/my };
const TEXT = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/y;
const WORDS = {
  ts: "import|export|from|const|let|function|async|await|return|for|of|if|else|new|type|interface|class|extends|implements|readonly|throw|try|catch|default|as|in|while|yield|void|typeof",
  sh: "if|then|else|fi|for|do|done|while|export|sudo",
};
const LIKE = {
  ts: "ts",
  typescript: "ts",
  js: "ts",
  json: "ts",
  sh: "sh",
  ini: "sh",
  nginx: "sh",
  caddy: "sh",
  dockerfile: "sh",
  yaml: "sh",
};

/** Code with its comments, texts and keywords marked. A language that is not known stays plain. */
export function paint(code, language) {
  const kind = LIKE[language];
  if (kind === undefined) return escape(code);
  const word = new RegExp(`\\b(?:${WORDS[kind]})\\b(?!\\??:)`, "y");
  let html = "";
  for (let at = 0; at < code.length;) {
    const found =
      match(COMMENT[kind], code, at, "comment") ??
      match(TEXT, code, at, "text") ??
      match(word, code, at, "word");
    const plain = found ? undefined : (/[\w-]+|[^]/y.exec(code.slice(at))?.[0] ?? "");
    html += found ? `<span class="${found.name}">${escape(found.text)}</span>` : escape(plain);
    at += (found?.text ?? plain).length;
  }
  return html;
}

function match(pattern, code, at, name) {
  pattern.lastIndex = at;
  const text = pattern.exec(code)?.[0];
  return text === undefined || text === "" ? undefined : { name, text };
}

export function escape(text) {
  const names = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replaceAll(/[&<>"]/g, (letter) => names[letter]);
}
