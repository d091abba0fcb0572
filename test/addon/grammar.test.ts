import t from 'tap';
import { NativeVocabulary, openVocabulary } from '../../src/shared/native-addon.js';
import { SAMPLE_FLAG } from '../../src/shared/step-output.js';
import { EngineUnderTest, tokensFrom } from './engine-under-test.js';

// Model tests wait for the cores that other tests use.
t.setTimeout(180_000);

const under = new EngineUnderTest('tiny-qwen3');
const vocabulary = openVocabulary(under.handle);
const pieces = vocabulary.pieces(false);
t.teardown(() => {
  vocabulary.close();
  under.close();
});

function textOf(tokens: number[]): string {
  return Buffer.concat(
    tokens.map((token) => pieces.bytes.subarray(pieces.offsets[token], pieces.offsets[token + 1])),
  ).toString();
}

const JSON_GRAMMAR = `root ::= "{" ws "\\"answer\\"" ":" ws ("true" | "false" | number) ws "}" # the only shape
number ::= "-"? [0-9]{1,5} (
  "." [0-9]{1,9} )?
ws ::= [ \\n]?
`;

t.test('random weights under a grammar write what the grammar says, in every way of drawing', async (t) => {
  under.createContext();
  const ways = [
    {},
    { temperature: 1.5 },
    { temperature: 1, topK: 5 },
    { temperature: 1, topP: 0.8 },
    { temperature: 1, minP: 0.2 },
    { temperature: 1, topK: 40, topP: 0.9, presencePenalty: 0.5, penaltyLastTokens: 16 },
  ];
  for (const way of ways) {
    for (let seed = 1; seed <= 2; seed++) {
      const tokens = under.generate(tokensFrom(seed, 8), 60, { ...way, seed, grammar: JSON_GRAMMAR, maxTokens: 60 });
      const ended = vocabulary.isEndOfGeneration(tokens.at(-1) as number);
      const text = textOf(tokens);
      t.ok(ended, `ends by itself: ${text}`);
      t.match(text, /^\{[ \n]?"answer":[ \n]?(true|false|-?[0-9]{1,5}(\.[0-9]{1,9})?)[ \n]?\}$/);
    }
  }
});

t.test('the end is allowed only where the grammar may end', async (t) => {
  under.createContext();
  const { samplerFailed } = SAMPLE_FLAG;
  const start = (sampling: object) =>
    under.step({
      ops: [{ kind: 'evict', sequence: 0 }],
      starts: [{ sequence: 0, request: 1, sampling }],
      segments: [{ sequence: 0, request: 1, position: 0, tokens: tokensFrom(4, 5) }],
    })[0];
  t.equal(start({ grammar: 'root ::= ""' }).flags, SAMPLE_FLAG.endOfGeneration);
  t.equal(start({ grammar: 'root ::= ""', ignoreEos: true }).flags, samplerFailed, 'nothing is left to say');
  const eos: [number, number][] = [[vocabulary.eos, 100]];
  t.equal(
    textOf([start({ grammar: 'root ::= "yes"', logitBias: eos }).token])[0],
    'y',
    'a strong wish to end does not end it',
  );
});

t.test('a resumed request goes on in its grammar', async (t) => {
  under.createContext();
  const prompt = tokensFrom(5, 7);
  const sampling = { grammar: JSON_GRAMMAR, temperature: 1, seed: 5, maxTokens: 60 };
  const expected = under.generate(prompt, 60, sampling);
  const history = expected.slice(0, 3);
  const resume = (given: number[]) =>
    under.step({
      ops: [{ kind: 'evict', sequence: 1 }],
      starts: [{ sequence: 1, request: 1, sampling, history: given, sampledBefore: 3 }],
      segments: [{ sequence: 1, request: 1, position: 0, tokens: [...prompt, ...history] }],
    })[0];
  t.equal(resume(history).token, expected[3]);
  t.equal(resume([]).flags, SAMPLE_FLAG.samplerFailed, 'without its tokens it cannot');
  t.equal(resume(tokensFrom(6, 3)).flags, SAMPLE_FLAG.samplerFailed, 'nor with others');
});

t.test('a broken grammar ends its own request and no other', async (t) => {
  under.createContext();
  const alone = under.generate(tokensFrom(7, 5), 1);
  const samples = under.step({
    starts: [
      { sequence: 0, request: 1, sampling: { grammar: 'root ::= (' } },
      { sequence: 1, request: 2 },
    ],
    segments: [0, 1].map((sequence) => ({ sequence, request: sequence + 1, position: 0, tokens: tokensFrom(7, 5) })),
  });
  t.same(
    samples.map(({ flags }) => flags),
    [SAMPLE_FLAG.samplerFailed, 0],
  );
  t.same([samples[1].token], alone);
});

t.test('grammars that the engine would print, crash on or never finish are refused with the place', async (t) => {
  const chain = (rules: number, body: (next: string) => string) =>
    `root ::= r0\n${Array.from({ length: rules }, (_, index) => `r${index} ::= ${body(`r${index + 1}`)}`).join('\n')}\nr${rules} ::= "x"`;
  const refused: [string, RegExp][] = [
    ['', /no rule named root/],
    ['nothing', /line 1.*'::='/],
    ['root ::= "a\nb', /ends inside/],
    ['root ::= other', /'other' is used but not defined/],
    ['leaf ::= "a"', /no rule named root/],
    ['root ::= "a"\n\nroot2 ::= )', /line 3/],
    ['root ::= ("a"', /'\)' is expected/],
    ['root ::= [a-', /ends inside/],
    ['root ::= "\\q"', /unknown escape/],
    ['root ::= "\\x4"', /hexadecimal/],
    ['root ::= *', /nothing before/],
    ['root ::= "a"{3', /'}' is expected/],
    ['root ::= "a"{5,2}', /below/],
    ['root ::= "a"{3000,}', /2000/],
    ['root ::= ("a"{0,100}){0,100}', /2000/],
    ['root ::= <no such token>', /not a token/],
    ['root ::= <[99999999]>', /not a token/],
    ['root ::= root "a"', /left recursion/],
    ['root ::= empty root "a" | "b"\nempty ::= other\nother ::= "" | "c"', /left recursion/],
    ['root ::= ("a"?)*', /without end/],
    [`root ::= ${'('.repeat(5000)}"a"${')'.repeat(5000)}`, /nested/],
    [chain(5000, (next) => next), /begin with one another/],
    [chain(40, (next) => `${next} "a" | ${next} "b"`), /can begin in more than/],
    ['root ::= "a\u0000b"', /zero byte/],
    [`root ::= "${'x'.repeat(300000)}"`, /longer/],
  ];
  for (const [grammar, message] of refused) {
    t.throws(() => vocabulary.checkGrammar(grammar), { code: 'invalid_argument', message }, grammar.slice(0, 40));
  }
});

t.test('grammars of every construct are accepted', async (t) => {
  const accepted = [
    'root ::= "a"',
    '# comment\nroot ::= [^\\n\\x41-\\u0042] . "\\U0001F642"* (a | b)+\na ::= "x" # end\nb ::= "y"{2,4} "z"{3} "w"{1,}\n',
    'root   ::=\n  "a"\nb-2 ::= root |\n "c"\r\n',
    'root ::= <|im_end|> | !<|im_end|> <[3]>',
    'root ::= ( # a comment in a group\n "a"\n | "b"\n)',
    'root ::= "a"{2}{3} | []',
    JSON_GRAMMAR,
    'root ::= expr\nexpr ::= term ("+" term)*\nterm ::= "(" expr ")" | [0-9]+',
  ];
  for (const grammar of accepted) t.doesNotThrow(() => vocabulary.checkGrammar(grammar), grammar.slice(0, 40));
  t.type(vocabulary, NativeVocabulary);
});

t.test('an ambiguous grammar is given up before it takes the machine', async (t) => {
  under.createContext();
  const grammar = 'root ::= s\ns ::= [a-z] s [a-m] | [a-z] s [n-z] | ""';
  const [first] = under.step({
    starts: [{ sequence: 0, request: 1, sampling: { grammar, temperature: 1, ignoreEos: true } }],
    segments: [{ sequence: 0, request: 1, position: 0, tokens: tokensFrom(8, 5) }],
  });
  let flags = first.flags;
  for (let position = 5; position < 60 && flags === 0; position++)
    flags = under.step({ segments: [{ sequence: 0, request: 1, position }] })[0].flags;
  t.equal(flags, SAMPLE_FLAG.samplerFailed);
});
