/** What is asked: answers that repeat their question, and answers that do not. */
export const TASKS: ReadonlyArray<{ name: string; text: string }> = [
  {
    name: 'repeat a list',
    text: 'Repeat this list exactly:\n- red apples, 12 kg\n- green pears, 7 kg\n- yellow plums, 31 kg\n- black cherries, 4 kg\n- white grapes, 9 kg\n- brown figs, 2 kg',
  },
  {
    name: 'copy a sentence',
    text: 'Copy this line five times: The ship had lain at the quay since Tuesday, and nobody knew what was in the crates.',
  },
  { name: 'tell a story', text: 'Tell me a story about a ship in a storm.' },
  { name: 'explain', text: 'Explain why ice floats on water, and what that means for the fish in a lake.' },
];
